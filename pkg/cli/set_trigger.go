package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/grants"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// setTrigger is the command of this name.
type setTrigger struct {
	edit

	remove bool
	driver string
}

func newSetTrigger(s *session) *cobra.Command {
	o := &setTrigger{edit: *newEdit("updated")}
	c := &cobra.Command{
		Use:   "trigger TYPE/NAME OBJECT...",
		Short: "Have edits of ConfigMaps and Secrets rolled out",
		Long: "Sets the annotation by which the rollout controller makes an edit of a ConfigMap or a Secret a revision of the\n" +
			"workload. What was set before is replaced.",
		Example: "  kubectl liveconfig set trigger deployment/web configmap/app secret/tls\n" +
			"  kubectl liveconfig set trigger deployment/web --remove\n" +
			"  kubectl liveconfig set trigger --local -f web.yaml configmap/app -o yaml",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, s, args) },
	}
	o.addFlags(c)
	addDriverFlag(c, &o.driver)
	c.Flags().BoolVar(&o.remove, "remove", false, "have nothing trigger rollouts any more; the pod template gets the sources back")
	return c
}

func (o *setTrigger) run(c *cobra.Command, s *session, args []string) error {
	targets, objects, err := splitTriggers(args)
	if err != nil {
		return err
	}
	if o.remove && len(objects) > 0 {
		return usageError("--remove removes all triggers: leave %s out, or leave --remove out to replace the triggers by it", trigger.Format(objects))
	}
	if !o.remove && len(objects) == 0 {
		return usageError("no trigger is named: write one behind the workload, such as configmap/app or secret/tls")
	}
	return o.edit.run(c.Context(), s, targets, func(info *resource.Info, w workload) error {
		if err := isRolledOut(w); err != nil {
			return err
		}
		o.annotate(w, objects)
		o.remarkUnused(c.Context(), s, info, w, objects)
		return o.remarkRole(c.Context(), s, info, w)
	})
}

// remarkUnused says which objects the pod template does not use, and which do not exist.
func (o *setTrigger) remarkUnused(ctx context.Context, s *session, info *resource.Info, w workload, objects []trigger.Object) {
	used, unused := o.usage(w, info.Namespace, objects)
	for _, object := range objects {
		isUnused, isMissing := slices.Contains(unused, object), !o.local && s.isMissing(ctx, info.Namespace, object)
		switch {
		case isUnused && isMissing:
			s.remark("warning: %s does not exist, and %s does not use it: the controller starts no rollout%s",
				object, subject(info), didYouMean(object, used))
		case isMissing:
			s.remark("warning: %s does not exist", object)
		case isUnused:
			s.remark("note: %s does not use %s: an edit of it starts a rollout all the same", subject(info), object)
		}
	}
}

// didYouMean suggests the used object that has nearly the same name.
func didYouMean(object trigger.Object, used []trigger.Object) string {
	var names []string
	for _, u := range used {
		if u.Kind == object.Kind {
			names = append(names, u.Name)
		}
	}
	if name := api.Closest(object.Name, names); name != "" {
		return fmt.Sprintf("; did you mean %s?", trigger.Object{Kind: object.Kind, Name: name})
	}
	return ""
}

// isMissing reports whether the API server says that an object does not exist. A user who may not read it is not bothered.
func (s *session) isMissing(ctx context.Context, namespace string, object trigger.Object) bool {
	client, err := s.clientset()
	if err != nil {
		return false
	}
	if object.Kind == api.Secret {
		_, err = client.CoreV1().Secrets(namespace).Get(ctx, object.Name, metav1.GetOptions{})
	} else {
		_, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, object.Name, metav1.GetOptions{})
	}
	return apierrors.IsNotFound(err)
}

// remarkRole prints the Role that pods need which read triggers with the credentials of their service account: copies have
// names that nobody knows before.
func (o *setTrigger) remarkRole(ctx context.Context, s *session, info *resource.Info, w workload) error {
	pods, _, err := podsOf(info, w, o.driver)
	if err != nil {
		return nil //nolint:nilerr // Mistakes in volumes are another command's business.
	}
	pods.Refs = slices.DeleteFunc(pods.Refs, func(ref api.Ref) bool {
		return !slices.Contains(pods.Triggers, ref) && !slices.Contains(pods.Triggers, pods.Copies[ref])
	})
	wanted, err := grants.New(grants.Policy{ConfigMaps: access.ByDriver, Secrets: access.ByPod})
	if err != nil {
		return err
	}
	if added := wanted.Add(pods); len(added.Copied) == 0 || !o.local && s.mayReadCopies(ctx, pods) {
		return nil
	}
	objects, err := wanted.Objects()
	if err != nil {
		return err
	}
	s.remark("note: the pods of %s read copies of its Secrets with service account %s, and each copy has a new name. Unless the driver "+
		"reads Secrets itself, the account needs this Role, which `kubectl liveconfig grant %s --apply` applies:",
		subject(info), pods.ServiceAccount, subject(info))
	for _, object := range objects {
		if err := new(printers.YAMLPrinter).PrintObj(object.Object, s.ErrOut); err != nil {
			return err
		}
	}
	return nil
}

// mayReadCopies reports whether the API server lets the pods read all Secrets of their namespace. If it does not say, they may
// not.
func (s *session) mayReadCopies(ctx context.Context, pods grants.Pods) bool {
	client, err := s.clientset()
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
	answer, err := client.AuthorizationV1().LocalSubjectAccessReviews(pods.Namespace).Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}

// splitTriggers tells the workloads among the arguments from what triggers them: ConfigMaps and Secrets make no pods.
func splitTriggers(args []string) (targets []string, objects []trigger.Object, err error) {
	for _, arg := range args {
		kind, _, _ := strings.Cut(arg, "/")
		if _, err := trigger.ParseObject(kind + "/name"); err != nil {
			targets = append(targets, arg)
			continue
		}
		if kind == arg {
			return nil, nil, usageError("%q names no object: write it with its name, such as %s/app", arg, arg)
		}
		found, err := trigger.Parse(arg)
		if err != nil {
			return nil, nil, &UsageError{err}
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, trigger.Compare)
	return targets, slices.Compact(objects), nil
}

// isRolledOut returns an error for a workload that the rollout controller leaves alone.
func isRolledOut(w workload) error {
	switch w.object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet:
		return nil
	default:
		return &unfitError{reason: "it has no rollouts: the controller knows deployments, statefulsets and daemonsets"}
	}
}

// annotate says on a workload what triggers it; no objects is nothing.
func (o *setTrigger) annotate(w workload, objects []trigger.Object) {
	delete(w.meta.Annotations, trigger.TriggeredByFirst)
	if o.remove {
		delete(w.meta.Annotations, trigger.TriggeredBy)
		return
	}
	if w.meta.Annotations == nil {
		w.meta.Annotations = map[string]string{}
	}
	w.meta.Annotations[trigger.TriggeredBy] = trigger.Format(objects)
}

// usage returns the objects that the pod template names, and those of a list that it uses neither by their own names nor by
// those of their copies.
func (o *setTrigger) usage(w workload, namespace string, objects []trigger.Object) (used, unused []trigger.Object) {
	uses, err := template.Uses(w.template, template.Place{Namespace: namespace, Driver: o.driver})
	if err != nil {
		return nil, nil // A volume that cannot be read may be the one.
	}
	config, err := trigger.ParseConfig(w.template.Annotations[trigger.ConfigAnnotation])
	if err != nil {
		config = nil // Nothing was rolled out yet.
	}
	for _, use := range uses {
		used = append(used, use.Object)
	}
	for _, object := range objects {
		isUsed := slices.ContainsFunc(uses, func(u template.Use) bool {
			return u.Object == object || u.Object == trigger.Object{Kind: object.Kind, Name: config[object]}
		})
		if !isUsed {
			unused = append(unused, object)
		}
	}
	return used, unused
}
