// Package set is `kubectl liveconfig set`: the volumes of workloads, and what triggers rollouts.
//
// It does not know which attributes are right: the parser of the driver does.
package set

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := session.Group(&cobra.Command{
		Use:   "set",
		Short: "Change the volumes of a workload, or what triggers its rollouts",
	})
	first := newSetTrigger(s) // The name that the command was first proposed under.
	first.Use, first.Hidden = "triggers TYPE/NAME OBJECT...", true
	c.AddCommand(newSetTrigger(s), newSetVolume(s), first)
	return c
}

type setTrigger struct {
	*edit.Edit

	remove bool
	driver string
}

func newSetTrigger(s *session.Session) *cobra.Command {
	o := &setTrigger{Edit: edit.New(s, "updated")}
	c := &cobra.Command{
		Use:         "trigger TYPE/NAME OBJECT...",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "configmap", "secret"),
		Short:       "Roll out edits of ConfigMaps and Secrets",
		Long: "Sets the annotation by which the rollout controller makes an edit of a ConfigMap or a Secret a " +
			"revision of the\n" +
			"workload. The objects replace those that were set before.",
		Example: "  kubectl liveconfig set trigger deployment/web configmap/app secret/tls\n" +
			"  kubectl liveconfig set trigger deployment/web --remove\n" +
			"  kubectl liveconfig set trigger --local -f web.yaml configmap/app",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddFlags(c)
	selection.AddDriverFlag(c, &o.driver)
	c.Flags().BoolVar(&o.remove, "remove", false,
		"let nothing trigger rollouts any more; the pod template gets the sources back")
	return c
}

func (o *setTrigger) run(ctx context.Context, args []string) error {
	targets, objects, err := selection.SplitTriggers(args)
	if err != nil {
		return err
	}
	if o.remove && len(objects) > 0 {
		return fmt.Errorf("--remove removes all triggers: leave %s out, or leave --remove out to replace the triggers by it",
			trigger.Format(objects))
	}
	if !o.remove && len(objects) == 0 {
		return errors.New("no trigger is named: write one behind the workload, such as configmap/app or secret/tls")
	}
	return o.Run(targets, func(info *resource.Info, w selection.Workload) error {
		if _, isRolledOut := selection.ViewOf(w.Object); !isRolledOut {
			return &edit.NotApplicableError{
				Reason: "it has no rollouts: the controller knows deployments, statefulsets and daemonsets",
			}
		}
		o.annotate(w, objects)
		o.remarkUnused(ctx, info, w, objects)
		return o.remarkRole(ctx, info, w)
	})
}

// remarkUnused prints which objects the pod template does not use, and which do not exist.
func (o *setTrigger) remarkUnused(ctx context.Context, info *resource.Info, w selection.Workload, objects []api.Ref) {
	used, unused := o.usage(w, info.Namespace, objects)
	for _, object := range objects {
		isUnused, isMissing := slices.Contains(unused, object), !o.Local && o.isMissing(ctx, object.In(info.Namespace))
		switch {
		case isUnused && isMissing:
			o.Remark("warning: %s does not exist, and %s does not use it: the controller starts no rollout%s",
				object, selection.Subject(info), didYouMean(object, used))
		case isMissing:
			o.Remark("warning: %s does not exist", object)
		case isUnused:
			o.Remark("note: %s does not use %s: an edit of it starts a rollout all the same", selection.Subject(info), object)
		}
	}
}

func didYouMean(object api.Ref, used []api.Ref) string {
	var names []string
	for _, u := range used {
		if u.Kind == object.Kind {
			names = append(names, u.Name)
		}
	}
	if name := api.Closest(object.Name, names); name != "" {
		return fmt.Sprintf("; did you mean %s?", object.Named(name))
	}
	return ""
}

// isMissing reports whether an object does not exist. A user without the right to read it gets no
// warning.
func (o *setTrigger) isMissing(ctx context.Context, ref api.Ref) bool {
	client, err := o.Clientset()
	if err != nil {
		return false
	}
	is := observe.Get(ctx, client, ref)
	return is.Err == nil && !is.Exists()
}

// remarkRole prints the Role that pods need which read triggers with the credentials of their
// service account: copies have names that nobody knows before.
func (o *setTrigger) remarkRole(ctx context.Context, info *resource.Info, w selection.Workload) error {
	pods, _, err := roles.PodsOf(info, w, o.driver)
	if err != nil {
		return nil //nolint:nilerr // Mistakes in volumes are another command's business.
	}
	pods.Refs = slices.DeleteFunc(pods.Refs, func(ref api.Ref) bool {
		return !slices.Contains(pods.Triggers, ref) && !slices.Contains(pods.Triggers, pods.Copies[ref])
	})
	wanted := roles.New(roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByPod}})
	if added := wanted.Add(pods); len(added.Copied) == 0 || !o.Local && o.mayReadCopies(ctx, pods) {
		return nil
	}
	objects, err := wanted.Objects()
	if err != nil {
		return err
	}
	o.Remark("note: the pods of %s read copies of its Secrets with service account %s, and each copy has a new name. "+
		"Unless the driver reads Secrets itself, the account needs this Role, which `kubectl liveconfig grant %s --apply` "+
		"applies. If the controller runs with --roles, `grant --named-copies` makes a Role for these Secrets and "+
		"their copies only:",
		selection.Subject(info), pods.ServiceAccount, selection.Subject(info))
	for _, object := range objects {
		if err := new(printers.YAMLPrinter).PrintObj(object.Object, o.ErrOut); err != nil {
			return err
		}
	}
	return nil
}

// mayReadCopies reports whether the API server lets the pods read all Secrets of their namespace.
// If it does not answer, they may not.
func (o *setTrigger) mayReadCopies(ctx context.Context, pods roles.Pods) bool {
	client, err := o.Clientset()
	if err != nil {
		return false
	}
	review := &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: pods.Namespace},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + pods.Namespace + ":" + pods.ServiceAccount,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + pods.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: pods.Namespace, Verb: "get", Version: "v1", Resource: "secrets",
			},
		},
	}
	answer, err := client.AuthorizationV1().LocalSubjectAccessReviews(pods.Namespace).Create(ctx, review,
		metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}

func (o *setTrigger) annotate(w selection.Workload, objects []api.Ref) {
	delete(w.Meta.Annotations, trigger.TriggeredByFirst)
	if o.remove {
		delete(w.Meta.Annotations, trigger.TriggeredBy)
		return
	}
	if w.Meta.Annotations == nil {
		w.Meta.Annotations = map[string]string{}
	}
	w.Meta.Annotations[trigger.TriggeredBy] = trigger.Format(objects)
}

// usage returns the objects that the pod template names, and those of a list that it uses neither
// by their own names nor by those of their copies.
func (o *setTrigger) usage(w selection.Workload, namespace string, objects []api.Ref) (used, unused []api.Ref) {
	uses, err := template.Uses(w.Template, template.Place{Namespace: namespace, Driver: o.driver})
	if err != nil {
		return nil, nil // A volume that cannot be read may be the one.
	}
	// Without one, nothing was rolled out yet.
	config, _ := trigger.ParseConfig(w.Template.Annotations[trigger.ConfigAnnotation])
	for _, use := range uses {
		used = append(used, use.Object)
	}
	for _, object := range objects {
		isUsed := slices.ContainsFunc(uses, func(u template.Use) bool {
			return u.Object == object || u.Object == object.Named(config[object])
		})
		if !isUsed {
			unused = append(unused, object)
		}
	}
	return used, unused
}
