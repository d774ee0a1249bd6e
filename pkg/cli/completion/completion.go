// Package completion is `kubectl liveconfig completion`, and completes arguments and flags of all
// commands.
//
// It does not know what commands do.
package completion

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

const program = "kubectl-liveconfig"

// forKubectl is the script that kubectl asks when somebody completes what is typed after `kubectl
// liveconfig`.
const forKubectl = `#!/bin/sh
# kubectl asks this to complete what is typed after "kubectl liveconfig". It belongs into the PATH, under the name
# kubectl_complete-liveconfig.
exec ` + program + ` __complete "$@"
`

// scripts print what has a shell, or kubectl, complete what people type.
func scripts() map[string]func(io.Writer) error {
	plugin := &cobra.Command{Use: program} // A script does not know commands: it asks the program.
	return map[string]func(io.Writer) error{
		"bash": func(to io.Writer) error { return plugin.GenBashCompletionV2(to, true) },
		"zsh":  plugin.GenZshCompletion,
		"fish": func(to io.Writer) error { return plugin.GenFishCompletion(to, true) },
		"kubectl": func(to io.Writer) error {
			_, err := io.WriteString(to, forKubectl)
			return err
		},
	}
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	names := []string{"kubectl", "bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish",
		Short: "Print the script that completes what you type",
		Long: "With `kubectl`, prints a script that kubectl's own completion runs for the words after " +
			"`kubectl liveconfig`. Store it\n" +
			"as an executable file in the PATH. With the name of a shell, prints the completion of kubectl-liveconfig, with " +
			"the hyphen.",
		Example: "  kubectl liveconfig completion kubectl > ~/.local/bin/kubectl_complete-liveconfig\n" +
			"  chmod +x ~/.local/bin/kubectl_complete-liveconfig\n" +
			"  source <(kubectl liveconfig completion bash)",
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return fmt.Errorf("name one of %s", strings.Join(names, ", "))
			}
			if err := scripts()[args[0]](s.Out); err != nil {
				return fmt.Errorf("print the script for %s: %w", args[0], err)
			}
			return nil
		},
	}
}

const (
	// completionTimeout is how long a person waits for completions.
	completionTimeout = 5 * time.Second
	// mostCompletions is how many names somebody looks through, and how many are asked for at once.
	mostCompletions = 500
)

// completer finds what can follow on a command line. It leaves out values that it cannot find out:
// there is no place to report why.
type completer struct{ *session.Session }

// Register has the arguments and flags of all commands completed.
func Register(root *cobra.Command, s *session.Session) {
	completer{s}.addTo(root)
}

func (c completer) addTo(command *cobra.Command) {
	if kinds := session.KindsOf(command); len(kinds) > 0 {
		command.ValidArgsFunction = func(cc *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			return c.objects(cc.Context(), kinds, args, text)
		}
	}
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if values := c.flag(flag.Name); values != nil {
			_ = command.RegisterFlagCompletionFunc(flag.Name, values) // No command has registered another.
		}
	})
	for _, below := range command.Commands() {
		c.addTo(below)
	}
}

// resourceOf returns where the API has objects of a kind, by any name that kubectl has for it.
func resourceOf(kind string) (schema.GroupVersionResource, bool) {
	kind = strings.TrimSuffix(strings.ToLower(kind), ".apps")
	for _, known := range [][3]string{
		{"apps", "deployment", "deploy"},
		{"apps", "statefulset", "sts"},
		{"apps", "daemonset", "ds"},
		{"apps", "replicaset", "rs"},
		{"batch", "job", ""},
		{"batch", "cronjob", "cj"},
		{"", "pod", "po"},
		{"", "configmap", "cm"},
		{"", "secret", ""},
	} {
		group, name, short := known[0], known[1], known[2]
		if kind != "" && slices.Contains([]string{name, name + "s", short}, kind) {
			return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name + "s"}, true
		}
	}
	return schema.GroupVersionResource{}, false
}

func (c completer) objects(
	ctx context.Context, kinds, args []string, text string,
) ([]string, cobra.ShellCompDirective) {
	kind, name, isPath := strings.Cut(text, "/")
	if !isPath && len(args) > 0 {
		if resource, known := resourceOf(args[0]); known {
			return without(c.names(ctx, resource, text), args[1:]), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if !isPath {
		var all []string
		for _, kind := range kinds {
			if strings.HasPrefix(kind, text) {
				all = append(all, kind+"/")
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	resource, known := resourceOf(kind)
	if !known {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, found := range c.names(ctx, resource, name) {
		all = append(all, kind+"/"+found)
	}
	return without(all, args), cobra.ShellCompDirectiveNoFileComp
}

func without(all, there []string) []string {
	return slices.DeleteFunc(all, func(text string) bool { return slices.Contains(there, text) })
}

// names returns the names of objects that begin with a text: of the namespace, or of the cluster
// where they have none.
func (c completer) names(ctx context.Context, of schema.GroupVersionResource, text string) []string {
	config, err := c.Config()
	if err != nil {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	namespace := ""
	if of.Resource != "namespaces" {
		namespace = session.NamespaceOr(c.Session, "")
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var names []string
	page := metav1.ListOptions{Limit: mostCompletions}
	if of.Resource == "configmaps" || of.Resource == "secrets" {
		// Nobody edits the copies that the controller makes.
		page.LabelSelector = "!" + copies.Label + ",!" + release.StableLabel
	}
	for {
		list, err := client.Resource(of).Namespace(namespace).List(ctx, page)
		if err != nil {
			return names
		}
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, text) {
				names = append(names, name)
			}
		}
		if page.Continue = list.Continue; page.Continue == "" || len(names) >= mostCompletions {
			return names
		}
	}
}

// flag returns what completes the value of a flag; nil is the shell's own way, with files.
func (c completer) flag(name string) cobra.CompletionFunc {
	switch name {
	case "namespace", "from-namespace", "driver-namespace":
		return c.named(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	case "configmap", "secret":
		of, _ := resourceOf(name)
		return c.named(of)
	case "context", "cluster", "user":
		return c.inKubeconfig(name)
	case "revision", "to-revision":
		return c.revisions
	case "for":
		return c.conditions
	case "filename":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
	}
	return nil
}

func (c completer) named(of schema.GroupVersionResource) cobra.CompletionFunc {
	return func(cc *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return c.names(cc.Context(), of, text), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c completer) inKubeconfig(flag string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := c.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := map[string]iter.Seq[string]{
			"context": maps.Keys(config.Contexts), "cluster": maps.Keys(config.Clusters), "user": maps.Keys(config.AuthInfos),
		}
		return slices.Sorted(names[flag]), cobra.ShellCompDirectiveNoFileComp
	}
}

// conditions completes --for of wait: projected=configmap/NAME.
func (c completer) conditions(cc *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	const condition = "projected="
	rest, found := strings.CutPrefix(text, condition)
	if !found {
		return []string{condition}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	objects, directive := c.objects(cc.Context(), []string{"configmap", "secret"}, nil, rest)
	for i := range objects {
		objects[i] = condition + objects[i]
	}
	return objects, directive
}

// revisions completes the number of a revision of the workload in the command line, with a
// description.
func (c completer) revisions(cc *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cc.Context(), completionTimeout)
	defer cancel()
	found := make(chan []string, 1)
	// The search for the workload takes no context, and might never end.
	go func() { found <- c.revisionsOf(ctx, cc, args) }()
	select {
	case numbers := <-found:
		return numbers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c completer) revisionsOf(ctx context.Context, command *cobra.Command, args []string) []string {
	client, err := c.Clientset()
	if err != nil || len(args) == 0 {
		return nil
	}
	versions := scheme.Scheme.PrioritizedVersionsAllGroups()
	infos, err := resource.NewBuilder(c.Session).WithScheme(scheme.Scheme, versions...).
		NamespaceParam(session.NamespaceOr(c.Session, "")).DefaultNamespace().
		ResourceTypeOrNameArgs(false, args...).Do().Infos()
	if err != nil || len(infos) != 1 {
		return nil
	}
	driver, err := command.Flags().GetString("driver-name")
	if err != nil {
		return nil
	}
	history, err := observe.HistoryOf(ctx, client, infos[0].Object, driver)
	if err != nil {
		return nil
	}
	var numbers []string
	for _, r := range slices.Backward(history.Revisions) {
		about := []string{printing.Time(r.Created)}
		for _, item := range r.Items {
			about = append(about, item.Used().String())
		}
		numbers = append(numbers, fmt.Sprintf("%d\t%s", r.Number, strings.Join(about, " ")))
	}
	return numbers
}
