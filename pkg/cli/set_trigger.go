package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/resource"

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
	if o.remove != (len(objects) == 0) {
		return usageError("name what triggers, such as configmap/app or secret/tls, or say --remove, and not both")
	}
	return o.edit.run(c.Context(), s, targets, func(info *resource.Info, w workload) error {
		if err := isRolledOut(w); err != nil {
			return err
		}
		o.annotate(w, objects)
		if unused := o.unused(w, info.Namespace, objects); len(unused) > 0 {
			s.remark("note: %s uses no %s: an edit of it starts a rollout all the same",
				subject(info), strings.Join(unused, " and no "))
		}
		return nil
	})
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

// unused returns the objects that the pod template uses neither by their own names nor by those of their copies.
func (o *setTrigger) unused(w workload, namespace string, objects []trigger.Object) []string {
	uses, err := template.Uses(w.template, template.Place{Namespace: namespace, Driver: o.driver})
	if err != nil {
		return nil // A volume that cannot be read may be the one.
	}
	config, err := trigger.ParseConfig(w.template.Annotations[trigger.ConfigAnnotation])
	if err != nil {
		config = nil // Nothing was rolled out yet.
	}
	var unused []string
	for _, object := range objects {
		isUsed := slices.ContainsFunc(uses, func(u template.Use) bool {
			return u.Object == object || u.Object == trigger.Object{Kind: object.Kind, Name: config[object]}
		})
		if !isUsed {
			unused = append(unused, object.String())
		}
	}
	return unused
}
