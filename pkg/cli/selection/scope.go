package selection

import (
	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// Scope is which pods a command looks at that looks at all pods.
type Scope struct {
	// Namespace is empty for all namespaces, and Labels for all pods.
	Namespace, Labels string
}

// String names the namespaces of a scope.
func (s Scope) String() string {
	if s.Namespace == "" {
		return "all namespaces"
	}
	return "namespace " + s.Namespace
}

// AddAllNamespacesFlag adds --all-namespaces.
func (s *Selection) AddAllNamespacesFlag(c *cobra.Command, help string) {
	c.Flags().BoolVarP(&s.AllNamespaces, "all-namespaces", "A", false, help)
}

// Scope returns the pods that are meant by a flag that selects all pods. It refuses other ways to
// select.
func (s *Selection) Scope(in *session.Session, flag string, args []string) (Scope, error) {
	hasNamespace := in.Namespace != nil && *in.Namespace != ""
	switch {
	case len(args) > 0:
		return Scope{}, usage.Errorf("%s looks at all pods: leave out %s, or leave out %[1]s and name the namespace with -n", flag, args[0])
	case s.FromFiles():
		return Scope{}, usage.Errorf("%s looks at all pods: leave out --filename and --kustomize, or leave out %[1]s", flag)
	case s.AllNamespaces && hasNamespace:
		return Scope{}, usage.Errorf("--namespace and --all-namespaces name different pods: leave one out")
	case s.AllNamespaces:
		return Scope{Labels: s.Selector}, nil
	}
	return Scope{Namespace: session.NamespaceOr(in, ""), Labels: s.Selector}, nil
}
