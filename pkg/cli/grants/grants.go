// Package grants prints Roles and RoleBindings, or applies them.
//
// It does not know which are needed: that is up to pkg/cli/roles.
package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// Giver prints objects, or applies them.
type Giver struct {
	*session.Session

	Output *printing.Objects
	Apply  bool
}

// New returns a giver that prints.
func New(s *session.Session) Giver {
	return Giver{Session: s, Output: printing.NewObjects("serverside-applied")}
}

// GiveAll gives all objects but the bindings of Roles that could not be given: those are others',
// and may allow more.
func (g *Giver) GiveAll(ctx context.Context, objects []roles.Object, printer printers.ResourcePrinter) error {
	var errs []error
	failed := map[types.NamespacedName]bool{}
	for _, object := range objects {
		if ref := roleOf(object.Object); failed[types.NamespacedName{Namespace: object.Meta.Namespace, Name: ref}] {
			errs = append(errs, fmt.Errorf("%s is not applied, since its Role is not", object))
			continue
		}
		err := g.give(ctx, object, printer)
		failed[types.NamespacedName{Namespace: object.Meta.Namespace, Name: object.Meta.Name}] = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// roleOf returns the name of the Role of a binding; empty for another object.
func roleOf(object runtime.Object) string {
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		return binding.RoleRef.Name
	case *rbacv1.ClusterRoleBinding:
		return binding.RoleRef.Name
	default:
		return ""
	}
}

// Printer prints YAML if nothing else is asked for, and what was applied by its name and namespace.
func (g *Giver) Printer() (printers.ResourcePrinter, error) {
	if g.Output.HasFormat() {
		return g.Output.Printer()
	}
	if !g.Apply {
		*g.Output.OutputFormat = "yaml"
		return g.Output.Printer()
	}
	if _, err := g.Output.Printer(); err != nil { // It checks --dry-run.
		return nil, err
	}
	return printers.NewTypeSetter(scheme.Scheme).ToPrinter(printers.ResourcePrinterFunc(g.printApplied)), nil
}

// printApplied prints one line. kubectl's own printer would leave out the namespace, and a Role of
// another namespace is what the reader has to notice.
func (g *Giver) printApplied(object runtime.Object, to io.Writer) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	operation := "serverside-applied in namespace " + accessor.GetNamespace()
	if accessor.GetNamespace() == "" {
		operation = "serverside-applied in the whole cluster"
	}
	if g.Output.DryRun != printing.DryRunNone {
		operation += fmt.Sprintf(" (%s dry run)", g.Output.DryRun)
	}
	return (&printers.NamePrinter{Operation: operation}).PrintObj(object, to)
}

func (g *Giver) give(ctx context.Context, object roles.Object, printer printers.ResourcePrinter) error {
	if !g.Apply || g.Output.DryRun == printing.DryRunClient {
		return printer.PrintObj(object.Object, g.Out)
	}
	applied, err := g.send(ctx, object)
	switch {
	case isConflictWithController(err):
		return fmt.Errorf("apply %s: %w: %s", object, err, roleToCorrect(object))
	case apierrors.IsConflict(err):
		return fmt.Errorf("apply %s: %w; it is another's: look at it, and to take it over, pipe the output "+
			"without --apply to `kubectl apply --server-side --force-conflicts -f -`", object, err)
	case err != nil:
		return fmt.Errorf("apply %s: %w", object, err)
	}
	return printer.PrintObj(applied, g.Out)
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
func (g *Giver) send(ctx context.Context, object roles.Object) (runtime.Object, error) {
	config, err := g.Config()
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
	if g.Output.DryRun == printing.DryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	name, namespace := object.Meta.Name, object.Meta.Namespace
	switch object.Object.(type) {
	case *rbacv1.Role:
		return client.Roles(namespace).Patch(ctx, name, types.ApplyPatchType, text, options)
	case *rbacv1.ClusterRole:
		return client.ClusterRoles().Patch(ctx, name, types.ApplyPatchType, text, options)
	case *rbacv1.ClusterRoleBinding:
		return client.ClusterRoleBindings().Patch(ctx, name, types.ApplyPatchType, text, options)
	}
	return client.RoleBindings(namespace).Patch(ctx, name, types.ApplyPatchType, text, options)
}
