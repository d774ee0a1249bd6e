// Package selection finds what a command works on: objects of the cluster or of files, and
// manifests.
//
// It does not know what commands do with it.
package selection

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Driver is the default name of the driver.
const Driver = api.DriverName

// AddDriverFlag adds the flag for the name of the driver.
func AddDriverFlag(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "driver-name", Driver, "name that the driver is installed under")
}

// Selection is what a command works on: files, or objects of the cluster by type and name, by
// label, or all of a type.
type Selection struct {
	files    resource.FilenameOptions
	Selector string
	All      bool
	Local    bool
	// AllNamespaces is of commands that can look at all pods: see Scope.
	AllNamespaces bool
}

// AddFlags adds the flags by which people select.
func (s *Selection) AddFlags(c *cobra.Command) {
	s.AddClusterFlags(c)
	c.Flags().BoolVar(&s.Local, "local", false, "work on --filename alone and ask no cluster")
}

// AddClusterFlags adds the flags by which people select what is in the cluster.
func (s *Selection) AddClusterFlags(c *cobra.Command) {
	flags := c.Flags()
	AddFilenameFlag(c, &s.files.Filenames)
	flags.BoolVarP(&s.files.Recursive, "recursive", "R", false, "go into the directories of --filename")
	flags.StringVarP(&s.Selector, "selector", "l", "", "labels that select objects of the type, such as app=web")
	flags.BoolVar(&s.All, "all", false, "all objects of the type in the namespace")
}

// Visit finds what was selected.
func (s *Selection) Visit(in *session.Session, args []string) ([]*resource.Info, error) {
	if err := s.check(args); err != nil {
		return nil, err
	}
	namespace, enforce, err := in.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("find out the namespace: %w", err)
	}
	b := resource.NewBuilder(in).Unstructured().
		ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, &s.files).LabelSelectorParam(s.Selector).Flatten()
	if s.Local {
		b = b.Local()
	} else {
		b = b.ResourceTypeOrNameArgs(s.All, args...).Latest()
	}
	infos, err := b.Do().Infos()
	switch {
	case err != nil:
		return nil, err
	case len(infos) == 0:
		return nil, s.nothing(args, namespace)
	}
	var errs []error
	for _, info := range infos {
		info.Namespace = cmp.Or(info.Namespace, namespace) // Without a cluster nobody has done so.
		errs = append(errs, AsTyped(info))
	}
	return infos, errors.Join(errs...)
}

// Manifests reads the files that were selected, as texts.
func (s *Selection) Manifests(in *session.Session, args []string) ([]manifest.File, error) {
	if err := s.check(args); err != nil {
		return nil, err
	}
	return ReadManifests(in, manifest.Input{Names: s.files.Filenames, Recursive: s.files.Recursive})
}

// Nothing is the error that the files hold nothing that was selected.
func (s *Selection) Nothing() error { return s.nothing(nil, "") }

// check returns an error for a command line that selects nothing, or selects twice.
func (s *Selection) check(args []string) error {
	isPart := func(arg string) bool { return !strings.Contains(arg, "/") }
	switch {
	case s.Local && !s.FromFiles():
		return errors.New("--local needs --filename: there is nothing else to work on")
	case len(args) == 0 && !s.FromFiles():
		return errors.New("nothing to work on: name an object, such as deployment/web, or use --filename")
	case len(args) > 0 && s.FromFiles():
		return fmt.Errorf("%s and --filename both name what to work on: leave one out; of what files hold, -l "+
			"selects by labels", args[0])
	case len(args) == 1 && isPart(args[0]) && !s.All && s.Selector == "":
		return fmt.Errorf("%q is not TYPE/NAME, such as deployment/web; for several objects of a type, use -l or --all",
			args[0])
	}
	return nil
}

// FromFiles reports whether the objects come from files, in which others may be beside those that
// are meant.
func (s *Selection) FromFiles() bool { return len(s.files.Filenames) > 0 }

// nothing is the error that nothing was selected: what was looked for, and where.
func (s *Selection) nothing(args []string, namespace string) error {
	wanted, types := "object", strings.Join(args, " ")
	if types != "" {
		wanted += " of type " + types
	}
	if s.Selector != "" {
		wanted += " with the labels " + s.Selector
	}
	if s.FromFiles() {
		names := slices.Clone(s.files.Filenames)
		if at := slices.Index(names, manifest.Stdin); at >= 0 {
			names[at] = "the standard input"
		}
		return fmt.Errorf("there is no %s in %s", wanted, strings.Join(names, ", "))
	}
	return fmt.Errorf("there is no %s in namespace %s: see `kubectl get %s -n %[2]s --show-labels`, or use -n for "+
		"another namespace",
		wanted, namespace, types)
}

// AsTyped makes the object of one of Kubernetes' own kinds that of Go. Others stay as they are:
// files hold them beside.
func AsTyped(info *resource.Info) error {
	given, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	text, err := given.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", Subject(info), err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: it is not what the API server takes: %w", Subject(info), err)
	}
	info.Object = object
	return nil
}

// SplitTriggers separates workloads from objects that trigger their rollouts: ConfigMaps and
// Secrets make no pods.
func SplitTriggers(args []string) (targets []string, objects []api.Ref, err error) {
	for _, arg := range args {
		kind, _, _ := strings.Cut(arg, "/")
		if _, err := trigger.ParseObject(kind + "/name"); err != nil {
			targets = append(targets, arg)
			continue
		}
		if kind == arg {
			return nil, nil, fmt.Errorf("%q names no object: write it with its name, such as %s/app", arg, arg)
		}
		found, err := trigger.Parse(arg)
		if err != nil {
			return nil, nil, fmt.Errorf("%w", err)
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, trigger.Compare)
	return targets, slices.Compact(objects), nil
}

// AddManifestFlags adds the flags by which people name manifests that are looked at as texts.
func AddManifestFlags(c *cobra.Command, in *manifest.Input) {
	AddFilenameFlag(c, &in.Names)
	c.Flags().BoolVarP(&in.Recursive, "recursive", "R", false, "go into the directories of --filename")
}

// FilesOnly refuses arguments of a command that works on manifests: the flag before a file was
// forgotten.
func FilesOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is not an argument of %s: use -f %[1]s for a file of that name", args[0], c.CommandPath())
	}
	return nil
}

// ReadManifests reads what --filename names.
func ReadManifests(s *session.Session, in manifest.Input) ([]manifest.File, error) {
	if len(in.Names) == 0 {
		return nil, errors.New("name the manifests: --filename FILE, or - for stdin")
	}
	in.Stdin = s.In
	return manifest.Read(in)
}

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
		return Scope{}, fmt.Errorf("%s looks at all pods: leave out %s, or leave out %[1]s and name the namespace with -n",
			flag, args[0])
	case s.FromFiles():
		return Scope{}, fmt.Errorf("%s looks at all pods: leave out --filename, or leave out %[1]s", flag)
	case s.AllNamespaces && hasNamespace:
		return Scope{}, errors.New("--namespace and --all-namespaces name different pods: leave one out")
	case s.AllNamespaces:
		return Scope{Labels: s.Selector}, nil
	}
	return Scope{Namespace: session.NamespaceOr(in, ""), Labels: s.Selector}, nil
}
