// Package grant is `kubectl liveconfig grant`.
//
// It does not know which Roles are needed: that is up to pkg/cli/roles.
package grant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

type command struct {
	selection.Selection
	*session.Session

	output              *printing.Objects
	apply, namedCopies  bool
	driver              string
	configMaps, secrets string
	sourceNamespaces    []string
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s, output: printing.NewObjects("serverside-applied")}
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
	o.output.AddFlags(c)
	selection.AddDriverFlag(c, &o.driver)
	flags := c.Flags()
	flags.BoolVar(&o.apply, "apply", false,
		"apply what would be printed, by server-side apply; names of copies stay in a Role that asks the controller for them")
	flags.BoolVar(&o.namedCopies, "named-copies", false,
		"for triggers: Roles into which the controller writes the names of copies, if it runs with --roles")
	flags.StringSliceVar(&o.sourceNamespaces, "source-namespace", nil,
		"another namespace than that of the pods in which sources are granted; can be repeated")
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
	printer, err := o.printer()
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
	return errors.Join(append(errs, err, o.giveAll(c.Context(), objects, printer))...)
}

// giveAll gives all objects but the bindings of Roles that could not be given: those are others',
// and may allow more.
func (o *command) giveAll(ctx context.Context, objects []roles.Object, printer printers.ResourcePrinter) error {
	var errs []error
	failed := map[types.NamespacedName]bool{}
	for _, object := range objects {
		if binding, ok := object.Object.(*rbacv1.RoleBinding); ok &&
			failed[types.NamespacedName{Namespace: binding.Namespace, Name: binding.RoleRef.Name}] {
			errs = append(errs, fmt.Errorf("%s is not applied, since its Role is not", object))
			continue
		}
		err := o.give(ctx, object, printer)
		failed[types.NamespacedName{Namespace: object.Meta.Namespace, Name: object.Meta.Name}] = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// printer prints YAML if nothing else is asked for, and what was applied by its name and namespace.
func (o *command) printer() (printers.ResourcePrinter, error) {
	if o.output.HasFormat() {
		return o.output.Printer()
	}
	if !o.apply {
		*o.output.OutputFormat = "yaml"
		return o.output.Printer()
	}
	if _, err := o.output.Printer(); err != nil { // It checks --dry-run.
		return nil, err
	}
	return printers.NewTypeSetter(scheme.Scheme).ToPrinter(printers.ResourcePrinterFunc(o.printApplied)), nil
}

// printApplied prints one line. kubectl's own printer would leave out the namespace, and a Role of
// another namespace is what the reader has to notice.
func (o *command) printApplied(object runtime.Object, to io.Writer) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	operation := "serverside-applied in namespace " + accessor.GetNamespace()
	if o.output.DryRun != printing.DryRunNone {
		operation += fmt.Sprintf(" (%s dry run)", o.output.DryRun)
	}
	return (&printers.NamePrinter{Operation: operation}).PrintObj(object, to)
}

func (o *command) add(ctx context.Context, wanted *roles.Grants, info *resource.Info, w selection.Workload) error {
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

// refused returns an error for each source of a namespace that the caller has not named.
func refused(pods roles.Pods, sources []api.Ref) []error {
	var errs []error
	for _, ref := range sources {
		errs = append(errs, fmt.Errorf("%s is in namespace %s, and the pods are in %s: grant makes no Role for it. Any "+
			"author of the workload can name any source: if service account %[3]s/%s is to read it, add "+
			"--source-namespace %[2]s",
			ref, ref.Namespace, pods.Namespace, pods.ServiceAccount))
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
		if found, err := stable.Read(ctx, client, ref); err == nil && found.IsReleased {
			released = append(released, ref)
		}
	}
	return released, nil
}

func (o *command) note(info *resource.Info, text string) {
	o.Remark("note: %s: %s", selection.Subject(info), text)
}

func (o *command) give(ctx context.Context, object roles.Object, printer printers.ResourcePrinter) error {
	if !o.apply || o.output.DryRun == printing.DryRunClient {
		return printer.PrintObj(object.Object, o.Out)
	}
	applied, err := o.send(ctx, object)
	switch {
	case isConflictWithController(err):
		return fmt.Errorf("apply %s: %w: %s", object, err, roleToCorrect(object))
	case apierrors.IsConflict(err):
		return fmt.Errorf("apply %s: %w; it is another's: look at it, and to take it over, pipe the output "+
			"without --apply to `kubectl apply --server-side --force-conflicts -f -`", object, err)
	case err != nil:
		return fmt.Errorf("apply %s: %w", object, err)
	}
	return printer.PrintObj(applied, o.Out)
}

// isConflictWithController reports whether the rollout controller has written a field that is to
// be another. To force that would take names of copies away from pods.
func isConflictWithController(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeFieldManagerConflict &&
			strings.Contains(c.Message, strconv.Quote(api.ControllerName))
	})
}

// roleToCorrect returns how to correct a Role that the rollout controller has written names into.
func roleToCorrect(object roles.Object) string {
	role, ok := object.Object.(*rbacv1.Role)
	if !ok || len(role.Rules) == 0 || len(role.Rules[0].ResourceNames) == 0 {
		return "look at it with kubectl get -o yaml"
	}
	rule := role.Rules[0]
	return fmt.Sprintf("the Role has another rule than %s on %s %s and its copies: correct it with `kubectl edit "+
		"role/%s -n %s`, and run this again",
		strings.Join(rule.Verbs, ", "), rule.Resources[0], rule.ResourceNames[0], role.Name, role.Namespace)
}

// send applies an object. A field that another writer has set differently is an error, and nobody's
// settings are taken over.
func (o *command) send(ctx context.Context, object roles.Object) (runtime.Object, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	client, err := rbacv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	role, isRole := object.Object.(*rbacv1.Role)
	if isRole {
		live, err := client.Roles(role.Namespace).Get(ctx, role.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			roles.KeepCopies(role, live)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read the Role as it is: %w", err)
		}
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: edit.FieldManager}
	if o.output.DryRun == printing.DryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if isRole {
		return client.Roles(object.Meta.Namespace).Patch(ctx, object.Meta.Name, types.ApplyPatchType, text, options)
	}
	return client.RoleBindings(object.Meta.Namespace).Patch(ctx, object.Meta.Name, types.ApplyPatchType, text, options)
}
