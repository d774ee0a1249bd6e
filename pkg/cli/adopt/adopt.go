// Package adopt is `kubectl liveconfig adopt`.
//
// It does not know which volumes the API server converts: that is up to pkg/cli/admission. It does
// not know which Roles pods need: that is up to pkg/cli/roles.
package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/grants"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// exitWaits is the status that the program ends with when pods would wait for Roles.
const exitWaits = 2

// The values of --grant.
const (
	grantPrint = "print"
	grantApply = "apply"
)

// early is the namespace of pods that must start before the driver does.
const early = metav1.NamespaceSystem

type command struct {
	*session.Session
	selection.Selection

	driver  string
	kinds   string
	grant   string
	label   bool
	readers identity.Readers
	output  printing.Format
	client  kubernetes.Interface
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "adopt [-n NAMESPACE | -A]",
		Short: "Show what the label on a namespace would convert, and set the label",
		Long: "Shows for each workload of the namespace which volumes of new pods would be live under the label " +
			admission.Label + ",\n" +
			"which volumes stay as they are and why, what would read differently, which Roles are missing, and which " +
			"pods need a\n" +
			"restart. It changes nothing without --label and --grant=apply.\n\n" +
			"--label sets the label if no Role is missing. A Role is missing if the API server denies a service account " +
			"an object\n" +
			"that its pods would read.\n\n" +
			"The exit code is 0 if no Role is missing, 2 if pods would wait for a Role, and 1 if something could not be " +
			"found out\n" +
			"or done.",
		Example: "  kubectl liveconfig adopt -n shop\n" +
			"  kubectl liveconfig adopt -A --kinds=configMaps.secrets -o json\n" +
			"  kubectl liveconfig adopt -n shop --kinds=secrets --grant | kubectl apply -f -\n" +
			"  kubectl liveconfig adopt -n shop --kinds=configMaps.secrets --grant=apply --label",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("adopt looks at a namespace: leave out %s, and name the namespace with -n", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.AddAllNamespacesFlag(c, "all namespaces but "+early)
	selection.AddDriverFlag(c, &o.driver)
	flags := c.Flags()
	flags.StringVar(&o.kinds, "kinds", "",
		"value of the label: "+strings.Join(admission.Values(), ", ")+" (default: what the namespace has, or configMaps)")
	flags.StringVar(&o.grant, "grant", "", "print the Roles that are missing, and nothing else, or apply them")
	flags.Lookup("grant").NoOptDefVal = grantPrint
	flags.BoolVar(&o.label, "label", false, "set the label of the namespace")
	flags.StringVar((*string)(&o.readers.ConfigMaps), "configmap-identity", string(identity.ByDriver),
		"identity that reads ConfigMaps: driver or pod, as configured in the driver")
	flags.StringVar((*string)(&o.readers.Secrets), "secret-identity", string(identity.ByPod),
		"identity that reads Secrets: driver or pod, as configured in the driver")
	o.output.AddFlag(c, "json or yaml", "json", "yaml")
	printing.Complete(c, "kinds", admission.Values()...)
	printing.Complete(c, "grant", grantPrint, grantApply)
	for _, flag := range []string{"configmap-identity", "secret-identity"} {
		printing.Complete(c, flag, string(identity.ByDriver), string(identity.ByPod))
	}
	return c
}

func (o *command) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	scope, err := o.Scope(o.Session, "--all-namespaces", nil)
	if err != nil {
		return err
	}
	if o.label && scope.Namespace == early {
		return fmt.Errorf("pods of namespace %s must start before the driver: it does not get the label", early)
	}
	if o.client, err = o.Clientset(); err != nil {
		return err
	}
	s := newSurvey(o.client, admission.Policy{Driver: o.driver, Value: o.kinds}, roles.Policy{Readers: o.readers})
	if err := s.read(ctx, scope); err != nil {
		return err
	}
	missing, err := s.missing(ctx)
	if err != nil {
		return err
	}
	return o.act(ctx, s, missing)
}

func (o *command) check() error {
	known := []identity.Reader{identity.ByDriver, identity.ByPod}
	switch {
	case o.kinds != "" && !slices.Contains(admission.Values(), o.kinds):
		return fmt.Errorf("--kinds %q is not %s", o.kinds, strings.Join(admission.Values(), ", "))
	case !slices.Contains([]string{"", grantPrint, grantApply}, o.grant):
		return fmt.Errorf("--grant=%q is not %s or %s", o.grant, grantPrint, grantApply)
	case !slices.Contains(known, o.readers.ConfigMaps):
		return fmt.Errorf("--configmap-identity %q is not driver or pod", o.readers.ConfigMaps)
	case !slices.Contains(known, o.readers.Secrets):
		return fmt.Errorf("--secret-identity %q is not driver or pod", o.readers.Secrets)
	case o.label && o.AllNamespaces:
		return errors.New("--label is for one namespace: name it with -n, and leave out --all-namespaces")
	case o.label && o.grant == grantPrint:
		return errors.New("--grant prints Roles, and without them pods wait: use --grant=apply with --label, " +
			"or leave one out")
	}
	return nil
}

// act prints or applies what was found.
func (o *command) act(ctx context.Context, s *survey, missing []roles.Object) error {
	if o.grant != "" {
		if err := o.give(ctx, missing); err != nil {
			return err
		}
	}
	if o.grant == grantApply {
		s.granted()
		missing = nil
	}
	if o.grant != grantPrint {
		if err := o.print(s.report()); err != nil {
			return err
		}
	}
	waits := s.waits()
	switch {
	case o.label && len(missing) > 0:
		return &session.Exit{Code: exitWaits, Err: fmt.Errorf("the label is not set: pods would wait for %s; add "+
			"--grant=apply, or leave Secrets out with --kinds=configMaps", printing.Counted(len(waits), "Role"))}
	case o.label:
		return o.setLabel(ctx, s)
	case len(missing) > 0 && o.grant == "":
		return &session.Exit{Code: exitWaits}
	}
	return nil
}

func (o *command) give(ctx context.Context, missing []roles.Object) error {
	giver := grants.New(o.Session)
	giver.Apply = o.grant == grantApply
	giver.Output.DryRun = printing.DryRunNone
	printer, err := giver.Printer()
	if err != nil {
		return err
	}
	return giver.GiveAll(ctx, missing, printer)
}

func (o *command) setLabel(ctx context.Context, s *survey) error {
	if s.policy.state == policyMissing {
		return errors.New("the label is not set, since the API server would convert nothing: " + s.policy.reason)
	}
	one := s.namespaces[0]
	if one.Label == one.Value {
		o.Remark("namespace/%s has the label %s=%s already", one.Name, admission.Label, one.Value)
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{admission.Label: one.Value}},
	})
	if err != nil {
		return err
	}
	_, err = o.client.CoreV1().Namespaces().Patch(ctx, one.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: edit.FieldManager})
	if err != nil {
		return fmt.Errorf("label namespace %s: %w", one.Name, err)
	}
	o.Remark("namespace/%s labeled %s=%s", one.Name, admission.Label, one.Value)
	return nil
}
