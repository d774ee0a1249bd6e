package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/grants"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// grant is the command of this name.
type grant struct {
	selection
	*session

	output              *genericclioptions.PrintFlags
	dryRun              string
	apply               bool
	driver              string
	configMaps, secrets string
}

func newGrant(s *session) *cobra.Command {
	o := &grant{session: s}
	o.output = genericclioptions.NewPrintFlags("serverside-applied").WithTypeSetter(scheme.Scheme)
	c := &cobra.Command{
		Use:   "grant TYPE/NAME",
		Short: "Print or apply the Roles that the volumes of a workload need",
		Long: "Prints, for each source that is read with the credentials of the pods' service account, the Role and RoleBinding that\n" +
			"let it be read, and nothing else be. Volumes of Kubernetes' own types need none.",
		Example: "  kubectl liveconfig grant deployment/web\n" +
			"  kubectl liveconfig grant deployment/web --apply\n" +
			"  kubectl liveconfig grant --local -f web.yaml | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.addFlags(c)
	o.output.AddFlags(c)
	addDriverFlag(c, &o.driver)
	flags := c.Flags()
	flags.BoolVar(&o.apply, "apply", false, "apply what would be printed, by server-side apply")
	flags.StringVar(&o.dryRun, "dry-run", dryRunNone, "with --apply: none, client (only print) or server (have the server keep nothing)")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&o.configMaps, "configmap-identity", string(access.ByDriver), "who reads ConfigMaps: driver or pod, as the driver is told")
	flags.StringVar(&o.secrets, "secret-identity", string(access.ByPod), "who reads Secrets: driver or pod, as the driver is told")
	return c
}

func (o *grant) run(c *cobra.Command, args []string) error {
	policy, err := o.policy()
	if err != nil {
		return err
	}
	printer, err := o.printer()
	if err != nil {
		return err
	}
	o.local = o.local || o.fromFiles() // Manifests say all that is needed, and may not be applied yet.
	infos, err := o.visit(o.session, args)
	if err != nil {
		return err
	}
	wanted, err := grants.New(policy)
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range infos {
		w, ok := asWorkload(info.Object)
		if !ok && len(args) == 0 && len(infos) > 1 {
			continue // A file has other objects as well.
		}
		if !ok {
			errs = append(errs, fmt.Errorf("%s: it makes no pods: name a deployment, statefulset, daemonset, job, cronjob or pod", subject(info)))
			continue
		}
		if err := o.add(wanted, info, w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", subject(info), err))
		}
	}
	objects, err := wanted.Objects()
	return errors.Join(append(errs, err, o.giveAll(c.Context(), objects, printer))...)
}

// giveAll gives all objects but the bindings of Roles that could not be given: those are others', and may allow more.
func (o *grant) giveAll(ctx context.Context, objects []grants.Object, printer printers.ResourcePrinter) error {
	var errs []error
	failed := map[types.NamespacedName]bool{}
	for _, object := range objects {
		if binding, ok := object.Object.(*rbacv1.RoleBinding); ok && failed[types.NamespacedName{Namespace: binding.Namespace, Name: binding.RoleRef.Name}] {
			errs = append(errs, fmt.Errorf("%s is not applied, since its Role is not", object))
			continue
		}
		err := o.give(ctx, object, printer)
		failed[types.NamespacedName{Namespace: object.Meta.Namespace, Name: object.Meta.Name}] = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// policy returns who reads what.
func (o *grant) policy() (grants.Policy, error) {
	for flag, value := range map[string]string{"configmap-identity": o.configMaps, "secret-identity": o.secrets} {
		if !slices.Contains([]access.Reader{access.ByDriver, access.ByPod}, access.Reader(value)) {
			return grants.Policy{}, usageError("--%s %q is not driver or pod", flag, value)
		}
	}
	return grants.Policy{ConfigMaps: access.Reader(o.configMaps), Secrets: access.Reader(o.secrets)}, nil
}

// printer prints YAML if nothing else is asked for, and what was applied by its name.
func (o *grant) printer() (printers.ResourcePrinter, error) {
	switch {
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, o.dryRun):
		return nil, usageError("--dry-run %q is not none, client or server", o.dryRun)
	case o.apply && o.dryRun != dryRunNone:
		if err := o.output.Complete("%s (" + o.dryRun + " dry run)"); err != nil {
			return nil, err
		}
	case !o.apply && *o.output.OutputFormat == "":
		*o.output.OutputFormat = "yaml"
	}
	printer, err := o.output.ToPrinter()
	if err != nil {
		return nil, &UsageError{err}
	}
	return printer, nil
}

// add adds what a workload needs.
func (o *grant) add(wanted *grants.Grants, info *resource.Info, w workload) error {
	pods, count, err := podsOf(info, w, o.driver)
	if err != nil {
		return err
	}
	if count == 0 {
		o.note(info, "it has no volume of liveconfig: those of Kubernetes' own types need no Role, the kubelet reads what is in them")
		return nil
	}
	added := wanted.Add(pods)
	for _, ref := range added.Copied {
		o.note(info, fmt.Sprintf("%s triggers rollouts, and its copies have new names: the Role for it is for all %ss of namespace %s. "+
			"With a volume of Kubernetes' own types it needs none", ref, ref.Kind, ref.Namespace))
	}
	if added.None {
		o.note(info, "the driver itself reads all that its volumes hold: no Role is needed")
	}
	return nil
}

// podsOf returns what the volumes of a workload's pods hold, and how many volumes of the driver there are.
func podsOf(info *resource.Info, w workload, driver string) (grants.Pods, int, error) {
	pods := grants.Pods{
		Namespace:      namespaceOfPods(info, w),
		ServiceAccount: cmp.Or(w.template.Spec.ServiceAccountName, w.template.Spec.DeprecatedServiceAccount, "default"),
	}
	var errs []error
	count := 0
	for i, v := range w.template.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != driver {
			continue
		}
		count++
		spec, err := api.Parse(v.CSI.VolumeAttributes, pods.Namespace)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.volumes[%d] (%s): %w", i, v.Name, err))
			continue
		}
		pods.Refs = append(pods.Refs, spec.Refs()...)
	}
	if text, _, found := trigger.Wanted(w.meta.Annotations); found {
		objects, err := trigger.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the annotation %s %w", trigger.TriggeredBy, err))
		}
		for _, object := range objects {
			pods.Triggers = append(pods.Triggers, api.Ref{Kind: object.Kind, Namespace: pods.Namespace, Name: object.Name})
		}
	}
	if config, err := trigger.ParseConfig(w.template.Annotations[trigger.ConfigAnnotation]); err == nil {
		pods.Copies = map[api.Ref]api.Ref{}
		for object, name := range config.Copies() {
			source := api.Ref{Kind: object.Kind, Namespace: pods.Namespace, Name: object.Name}
			pods.Copies[api.Ref{Kind: object.Kind, Namespace: pods.Namespace, Name: name}] = source
		}
	}
	return pods, count, errors.Join(errs...)
}

func (o *grant) note(info *resource.Info, text string) {
	o.remark("note: %s: %s", subject(info), text)
}

// give prints one Role or RoleBinding, after it was applied if that is asked for.
func (o *grant) give(ctx context.Context, object grants.Object, printer printers.ResourcePrinter) error {
	if !o.apply || o.dryRun == dryRunClient {
		return printer.PrintObj(object.Object, o.Out)
	}
	applied, err := o.send(ctx, object)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("apply %s: %w; it is another's: look at it, and to take it over, pipe the output without --apply to "+
			"`kubectl apply --server-side --force-conflicts -f -`", object, err)
	case err != nil:
		return fmt.Errorf("apply %s: %w", object, err)
	}
	return printer.PrintObj(applied, o.Out)
}

// send applies an object. What another has set to something else is an error, and nobody's settings are taken over.
func (o *grant) send(ctx context.Context, object grants.Object) (runtime.Object, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	client, err := rbacv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if o.dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if _, ok := object.Object.(*rbacv1.Role); ok {
		return client.Roles(object.Meta.Namespace).Patch(ctx, object.Meta.Name, types.ApplyPatchType, text, options)
	}
	return client.RoleBindings(object.Meta.Namespace).Patch(ctx, object.Meta.Name, types.ApplyPatchType, text, options)
}
