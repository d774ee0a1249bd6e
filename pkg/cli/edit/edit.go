// Package edit changes selected objects in the cluster or in files, and prints the result.
//
// It does not know what is changed.
package edit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// FieldManager is the name under which the plugin writes.
const FieldManager = "kubectl-liveconfig"

// Edit changes objects, in the cluster or in files, and prints the result.
type Edit struct {
	*session.Session
	selection.Selection

	Output *printing.Objects
}

// New returns an edit that reports objects as done, such as updated.
func New(s *session.Session, done string) *Edit {
	return &Edit{Session: s, Output: printing.NewObjects(done)}
}

// AddFlags adds the flags by which people select, --dry-run and --output.
func (e *Edit) AddFlags(c *cobra.Command) {
	e.Selection.AddFlags(c)
	e.Output.AddFlags(c)
}

// NotApplicableError is about an object that a change is not for. Beside others in a file this is
// not a mistake.
type NotApplicableError struct {
	Reason string
	// IsExpected is true of an object that nobody expects to be changed.
	IsExpected bool
}

func (e *NotApplicableError) Error() string { return e.Reason }

var errNothingChanged = errors.New("nothing was changed: there is no workload for this in the files")

// Run changes each selected object by change. It goes on after an error.
func (e *Edit) Run(args []string, change func(*resource.Info, selection.Workload) error) error {
	if e.Local && !e.Output.HasFormat() {
		return e.runAsWritten(args, change)
	}
	printer, err := e.printer()
	if err != nil {
		return err
	}
	infos, err := e.Visit(e.Session, args)
	if err != nil {
		return err
	}
	var errs []error
	changed := 0
	for _, info := range infos {
		err := e.one(info, printer, change)
		_, isNotApplicable := errors.AsType[*NotApplicableError](err)
		switch {
		case err == nil:
			changed++
		case isNotApplicable && e.FromFiles():
			e.leave(info, err)
			if e.Output.HasFormat() { // The output has all manifests.
				errs = append(errs, printer.PrintObj(info.Object, e.Out))
			}
		default:
			errs = append(errs, fmt.Errorf("%s: %w", selection.Subject(info), err))
		}
	}
	if changed == 0 && errors.Join(errs...) == nil {
		return errNothingChanged
	}
	return errors.Join(errs...)
}

// leave prints why an object of a file is not changed, unless that is expected.
func (e *Edit) leave(info *resource.Info, err error) {
	if reason, ok := errors.AsType[*NotApplicableError](err); ok && !reason.IsExpected {
		e.Remark("note: %s is left as it is: %s", selection.Subject(info), reason)
	}
}

func notWorkload(object runtime.Object) error {
	if custom, ok := object.(*unstructured.Unstructured); ok {
		containers := []string{"spec", "template", "spec", "containers"}
		if _, makesPods, _ := unstructured.NestedFieldNoCopy(custom.Object, containers...); makesPods {
			return &NotApplicableError{
				Reason: "the plugin changes Kubernetes' own kinds alone: change its manifest by hand, and see `kubectl " +
					"liveconfig check`",
			}
		}
	}
	return &NotApplicableError{
		Reason: "it makes no pods: name a deployment, statefulset, daemonset, job, cronjob or pod", IsExpected: true,
	}
}

func (e *Edit) printer() (printers.ResourcePrinter, error) {
	if e.Local && !e.Output.HasFormat() {
		*e.Output.OutputFormat = "yaml" // Nothing is changed but what is printed.
	}
	return e.Output.Printer()
}

func (e *Edit) one(
	info *resource.Info, printer printers.ResourcePrinter, change func(*resource.Info, selection.Workload) error,
) error {
	before := info.Object.DeepCopyObject()
	w, ok := selection.AsWorkload(info.Object)
	if !ok {
		return notWorkload(info.Object)
	}
	if err := apply(info, w, change); err != nil {
		return err
	}
	if e.Local || e.Output.DryRun == printing.DryRunClient {
		return printer.PrintObj(info.Object, e.Out)
	}
	after, err := e.send(info, before)
	if err != nil {
		return err
	}
	return printer.PrintObj(after, e.Out)
}

// apply changes a workload or pod in memory.
func apply(
	info *resource.Info, w selection.Workload, change func(*resource.Info, selection.Workload) error,
) error {
	if err := change(info, w); err != nil {
		return err
	}
	if w.Pod != nil {
		w.Pod.Spec = w.Template.Spec
	}
	return nil
}

// send sends what was changed, and nothing else: what others change meanwhile stays.
func (e *Edit) send(info *resource.Info, before runtime.Object) (runtime.Object, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	is, err := json.Marshal(info.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the changed object: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, info.Object)
	if err != nil {
		return nil, fmt.Errorf("compare the object with the changed one: %w", err)
	}
	if string(patch) == "{}" {
		return info.Object, nil
	}
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(FieldManager).
		DryRun(e.Output.DryRun == printing.DryRunServer)
	return helper.Patch(info.Namespace, info.Name, types.StrategicMergePatchType, patch, &metav1.PatchOptions{})
}

// ChangeEach changes each workload, and then prints the remarks that change returns.
func (e *Edit) ChangeEach(
	args []string, change func(*resource.Info, selection.Workload) (remarks []string, err error),
) error {
	printer, err := e.printer()
	if err != nil {
		return err
	}
	return e.Each(e.Session, args, func(info *resource.Info) error {
		var remarks []string
		err := e.one(info, printer, func(info *resource.Info, w selection.Workload) (err error) {
			remarks, err = change(info, w)
			return err
		})
		for _, remark := range remarks {
			if err == nil {
				e.Remark("note: %s", remark)
			}
		}
		return err
	})
}
