package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
)

// fieldManager is the name under which the plugin writes.
const fieldManager = "kubectl-liveconfig"

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// edit changes objects, in the cluster or in files, and prints what came of it.
type edit struct {
	selection

	output *genericclioptions.PrintFlags
	dryRun string
}

// newEdit returns an edit that says that objects were «done», such as updated.
func newEdit(done string) *edit {
	return &edit{output: genericclioptions.NewPrintFlags(done).WithTypeSetter(scheme.Scheme)}
}

func (e *edit) addFlags(c *cobra.Command) {
	e.selection.addFlags(c)
	e.output.AddFlags(c)
	c.Flags().StringVar(&e.dryRun, "dry-run", dryRunNone,
		"none, client (only print what would be sent) or server (send it, and have the server keep nothing)")
	c.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
}

// unfitError is about an object that a change is not for. Beside others in a file that is no mistake.
type unfitError struct {
	reason string
	// isExpected is said of an object that nobody would take for one that is changed.
	isExpected bool
}

func (e *unfitError) Error() string { return e.reason }

// run changes each selected object by change. It goes on after an error.
func (e *edit) run(ctx context.Context, s *session, args []string, change func(*resource.Info, workload) error) error {
	printer, err := e.printer()
	if err != nil {
		return err
	}
	infos, err := e.visit(s, args)
	if err != nil {
		return err
	}
	var errs []error
	changed := 0
	for _, info := range infos {
		err := e.one(ctx, s, info, printer, change)
		unfit, isUnfit := errors.AsType[*unfitError](err)
		switch {
		case err == nil:
			changed++
		case isUnfit && e.fromFiles():
			if !unfit.isExpected {
				s.remark("note: %s is left as it is: %s", subject(info), unfit)
			}
			errs = append(errs, e.passOn(s, info, printer))
		default:
			errs = append(errs, fmt.Errorf("%s: %w", subject(info), err))
		}
	}
	if changed == 0 && errors.Join(errs...) == nil {
		return errors.New("nothing was changed: there is no workload for this in the files")
	}
	return errors.Join(errs...)
}

// notWorkload says why an object is none.
func notWorkload(object runtime.Object) error {
	if custom, ok := object.(*unstructured.Unstructured); ok {
		if _, makesPods, _ := unstructured.NestedFieldNoCopy(custom.Object, "spec", "template", "spec", "containers"); makesPods {
			return &unfitError{reason: "the plugin changes Kubernetes' own kinds alone: change its manifest by hand, and see `kubectl liveconfig check`"}
		}
	}
	return &unfitError{reason: "it makes no pods: name a deployment, statefulset, daemonset, job, cronjob or pod", isExpected: true}
}

// passOn prints an object of a file that is not changed, where what is printed are the manifests: none may be missing.
func (e *edit) passOn(s *session, info *resource.Info, printer printers.ResourcePrinter) error {
	if !e.passesOn() {
		return nil
	}
	return printer.PrintObj(info.Object, s.Out)
}

func (e *edit) printer() (printers.ResourcePrinter, error) {
	switch e.dryRun {
	case dryRunNone:
	case dryRunClient, dryRunServer:
		if err := e.output.Complete("%s (" + e.dryRun + " dry run)"); err != nil {
			return nil, err
		}
	default:
		return nil, usageError("--dry-run %q is not none, client or server", e.dryRun)
	}
	if e.local && !e.passesOn() {
		*e.output.OutputFormat = "yaml" // Nothing is changed but what is printed.
	}
	printer, err := e.output.ToPrinter()
	if err != nil {
		return nil, &UsageError{err}
	}
	return printer, nil
}

func (e *edit) one(
	ctx context.Context, s *session, info *resource.Info, printer printers.ResourcePrinter, change func(*resource.Info, workload) error,
) error {
	before := info.Object.DeepCopyObject()
	w, ok := asWorkload(info.Object)
	if !ok {
		return notWorkload(info.Object)
	}
	if err := change(info, w); err != nil {
		return err
	}
	if w.pod != nil {
		w.pod.Spec = w.template.Spec
	}
	if e.local || e.dryRun == dryRunClient {
		return printer.PrintObj(info.Object, s.Out)
	}
	after, err := e.send(ctx, info, before)
	if err != nil {
		return err
	}
	return printer.PrintObj(after, s.Out)
}

// passesOn reports whether what is printed are the manifests themselves, so that none may be missing.
func (e *edit) passesOn() bool { return e.output.OutputFormat != nil && *e.output.OutputFormat != "" }

// send sends what was changed, and nothing else: what others change meanwhile stays.
func (e *edit) send(_ context.Context, info *resource.Info, before runtime.Object) (runtime.Object, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode what it was: %w", err)
	}
	is, err := json.Marshal(info.Object)
	if err != nil {
		return nil, fmt.Errorf("encode what it shall be: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, info.Object)
	if err != nil {
		return nil, fmt.Errorf("compare what it was with what it shall be: %w", err)
	}
	if string(patch) == "{}" {
		return info.Object, nil
	}
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(fieldManager).DryRun(e.dryRun == dryRunServer)
	return helper.Patch(info.Namespace, info.Name, types.StrategicMergePatchType, patch, &metav1.PatchOptions{})
}

// subject is how messages name an object.
func subject(info *resource.Info) string {
	if info.Mapping != nil {
		return info.Mapping.Resource.Resource + "/" + info.Name
	}
	return info.Object.GetObjectKind().GroupVersionKind().Kind + "/" + info.Name
}
