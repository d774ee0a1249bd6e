// Package grant is `kubectl liveconfig grant`.
//
// It does not know which Roles are needed: that is up to pkg/cli/roles.
package grant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/grants"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

type command struct {
	selection.Selection
	*session.Session

	giver               grants.Giver
	namedCopies         bool
	driver              string
	configMaps, secrets string
	sourceNamespaces    []string
	// labels are the values of the label of namespaces that were read.
	labels map[string]string
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s, giver: grants.New(s), labels: map[string]string{}}
	c := &cobra.Command{
		Use:         "grant TYPE/NAME",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "pod", "job", "cronjob", "replicaset"),
		Short:       "Print or apply the Roles that the volumes of a workload need",
		Long: "Prints, for each source that is read with the credentials of the pods' service account, the Role and " +
			"RoleBinding that\n" +
			"let it be read, and nothing else be. Volumes of Kubernetes' own types need none.\n\n" +
			"Any author of a workload can name any source. So grant makes a Role in another namespace than that of the " +
			"pods only if\n" +
			"--source-namespace names it. For each other source it prints the flag to add, and the exit code is 1.",
		Example: "  kubectl liveconfig grant deployment/web\n" +
			"  kubectl liveconfig grant deployment/web --apply\n" +
			"  kubectl liveconfig grant deployment/web --source-namespace certs --apply\n" +
			"  kubectl liveconfig grant --local -f web.yaml | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.AddFlags(c)
	o.giver.Output.AddFlags(c)
	selection.AddDriverFlag(c, &o.driver)
	flags := c.Flags()
	flags.BoolVar(&o.giver.Apply, "apply", false,
		"apply what would be printed, by server-side apply; names of copies stay in a Role that asks the controller for them")
	flags.BoolVar(&o.namedCopies, "named-copies", false,
		"for triggers: Roles into which the controller writes the names of copies, if it runs with --roles")
	flags.StringSliceVar(&o.sourceNamespaces, "source-namespace", nil,
		"another namespace than that of the pods in which sources are granted, or * for a ClusterRole; can be repeated")
	flags.Lookup("dry-run").Usage = "with --apply: none, client (only print) or server (the server stores nothing)"
	flags.StringVar(&o.configMaps, "configmap-identity", string(identity.ByDriver),
		"identity that reads ConfigMaps: driver or pod, as configured in the driver")
	flags.StringVar(&o.secrets, "secret-identity", string(identity.ByPod),
		"identity that reads Secrets: driver or pod, as configured in the driver")
	for _, flag := range []string{"configmap-identity", "secret-identity"} {
		printing.Complete(c, flag, string(identity.ByDriver), string(identity.ByPod))
	}
	return c
}

func (o *command) run(c *cobra.Command, args []string) error {
	policy, err := o.policy()
	if err != nil {
		return err
	}
	printer, err := o.giver.Printer()
	if err != nil {
		return err
	}
	o.Local = o.Local || o.FromFiles() // Manifests contain all that is needed, and may not be applied yet.
	infos, err := o.Visit(o.Session, args)
	if err != nil {
		return err
	}
	wanted := roles.New(policy)
	var errs []error
	for _, info := range infos {
		w, ok := selection.AsWorkload(info.Object)
		if !ok && len(args) == 0 && len(infos) > 1 {
			continue // A file has other objects as well.
		}
		if !ok {
			errs = append(errs, fmt.Errorf("%s: it makes no pods: name a deployment, statefulset, daemonset, job, "+
				"cronjob or pod", selection.Subject(info)))
			continue
		}
		if err := o.add(c.Context(), wanted, info, w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", selection.Subject(info), err))
		}
	}
	objects, err := wanted.Objects()
	return errors.Join(append(errs, err, o.giver.GiveAll(c.Context(), objects, printer))...)
}

func (o *command) policy() (roles.Policy, error) {
	for flag, value := range map[string]string{"configmap-identity": o.configMaps, "secret-identity": o.secrets} {
		if !slices.Contains([]identity.Reader{identity.ByDriver, identity.ByPod}, identity.Reader(value)) {
			return roles.Policy{}, fmt.Errorf("--%s %q is not driver or pod", flag, value)
		}
	}
	return roles.Policy{
		Readers:     identity.Readers{ConfigMaps: identity.Reader(o.configMaps), Secrets: identity.Reader(o.secrets)},
		NamedCopies: o.namedCopies, SourceNamespaces: o.sourceNamespaces,
	}, nil
}

func (o *command) add(ctx context.Context, wanted *roles.Grants, info *resource.Info, w selection.Workload) error {
	if err := o.label(ctx, info, &w); err != nil {
		return err
	}
	pods, count, err := roles.PodsOf(info, w, o.driver)
	if err != nil {
		return err
	}
	if count == 0 {
		o.note(info, "it has no volume of liveconfig: those of Kubernetes' own types need no Role, the kubelet reads "+
			"what is in them")
		return nil
	}
	if pods.Released, err = o.released(ctx, pods.Refs); err != nil {
		return err
	}
	added := wanted.Add(pods)
	for _, ref := range added.Copied {
		if o.namedCopies {
			o.note(info, fmt.Sprintf("%s triggers rollouts: the controller writes the names of its copies into the Role if it "+
				"runs with --roles (controller.roles in the chart)", ref))
			continue
		}
		o.note(info, fmt.Sprintf("%s triggers rollouts, and its copies have new names: the Role for it is for all %ss of "+
			"namespace %s. With a volume of Kubernetes' own types it needs none", ref, ref.Kind, ref.Namespace))
	}
	if added.None && len(added.Foreign) == 0 {
		o.note(info, "the driver itself reads all that its volumes hold: no Role is needed")
	}
	return errors.Join(refused(pods, added.Foreign)...)
}

// label gives a workload the pod template that its new pods get in a namespace with the label. A
// pod has its volumes already.
func (o *command) label(ctx context.Context, info *resource.Info, w *selection.Workload) error {
	if o.Local || w.Pod != nil {
		return nil
	}
	namespace := selection.NamespaceOfPods(info, *w)
	value, err := o.labelOf(ctx, namespace)
	if err != nil || value == "" {
		return err
	}
	template := admission.Policy{Driver: o.driver, Namespace: namespace, Value: value}.Template(*w)
	w.Template = &template
	return nil
}

// labelOf returns the value of a namespace's label. A namespace that the caller may not read counts
// as one without the label, with a remark.
func (o *command) labelOf(ctx context.Context, namespace string) (string, error) {
	if value, known := o.labels[namespace]; known {
		return value, nil
	}
	client, err := o.Clientset()
	if err != nil {
		return "", err
	}
	found, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		o.Remark("note: whether namespace %s has the label %s is not known: you may not get it; if it has the label, "+
			"Roles may be missing here", namespace, admission.Label)
	case err != nil:
		return "", fmt.Errorf("read the labels of namespace %s: %w", namespace, err)
	default:
		o.labels[namespace] = found.Labels[admission.Label]
		return o.labels[namespace], nil
	}
	o.labels[namespace] = ""
	return "", nil
}

// refused returns an error for each source of a namespace that the caller has not named.
func refused(pods roles.Pods, sources []api.Ref) []error {
	var errs []error
	for _, ref := range sources {
		where := fmt.Sprintf("%s is in namespace %s, and the pods are in %s", ref, ref.Namespace, pods.Namespace)
		role, namespace := "Role", ref.Namespace
		if ref.Name == "" {
			where = fmt.Sprintf("a volume selects among %s, and the pods are in %s", ref, pods.Namespace)
		}
		if namespace == "" {
			role, namespace = "ClusterRole", "'"+api.AllNamespaces+"'"
		}
		errs = append(errs, fmt.Errorf("%s: grant makes no %s for it. Any author of the workload can name any source: if "+
			"service account %s/%s is to read it, add --source-namespace %s", where, role, pods.Namespace, pods.ServiceAccount,
			namespace))
	}
	return errs
}

// released returns which objects are released, as far as the caller may read them. Without a
// cluster that is not known.
func (o *command) released(ctx context.Context, refs []api.Ref) (released []api.Ref, err error) {
	if o.Local {
		return nil, nil
	}
	client, err := o.Clientset()
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref.Name == "" {
			continue // The Role for the kind is for stable copies too.
		}
		if found, err := stable.Read(ctx, client, ref); err == nil && found.IsReleased {
			released = append(released, ref)
		}
	}
	return released, nil
}

func (o *command) note(info *resource.Info, text string) {
	o.Remark("note: %s: %s", selection.Subject(info), text)
}
