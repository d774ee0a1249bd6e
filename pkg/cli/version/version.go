// Package version is `kubectl liveconfig version`.
//
// It does not know what a version can do: that is up to docs/limits.md and the changelog.
package version

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
)

const (
	// timeout is for a cluster that may be gone.
	timeout = 10 * time.Second
	// mostPages and pageSize limit the pods that are read: there is a driver on each node.
	mostPages = 20
	pageSize  = 500

	labelComponent = "app.kubernetes.io/component"
	labels         = "app.kubernetes.io/name=liveconfig," + labelComponent + " in (driver,controller)"
)

type command struct {
	*session.Session

	client    bool
	namespace string
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, the drivers and the controller",
		Long: "Prints the version of the plugin on the first line, and then the versions of the drivers and of the " +
			"controller in the\n" +
			"cluster, by the images of their pods. If the cluster cannot be asked, the command prints a note and ends " +
			"with 0.",
		Example: "  kubectl liveconfig version\n" +
			"  kubectl liveconfig version --client",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVar(&o.client, "client", false, "only the version of the plugin, without asking the cluster")
	c.Flags().StringVar(&o.namespace, "driver-namespace", nodes.DefaultNamespace, "namespace of the pods of liveconfig")
	return c
}

func (o *command) run(ctx context.Context) error {
	if _, err := fmt.Fprintln(o.Out, version.Version()); err != nil || o.client {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := o.Clientset()
	if err != nil {
		o.note(err)
		return nil
	}
	found, err := installed(ctx, client, o.namespace)
	if err != nil {
		o.note(err)
		return nil
	}
	if len(found) == 0 {
		o.Remark("note: no pod of liveconfig runs in namespace %s; use --driver-namespace if it is in another", o.namespace)
		return nil
	}
	rows := [][]string{{"COMPONENT", "VERSION", "PODS"}}
	for _, i := range found {
		rows = append(rows, []string{i.component, i.version, fmt.Sprint(i.pods)})
	}
	return printing.Table(o.Out, 3, rows)
}

func (o *command) note(err error) {
	why := err.Error()
	if apierrors.IsForbidden(err) {
		why = fmt.Sprintf("you may not list pods in namespace %s; see kubectl -n %[1]s auth can-i list pods", o.namespace)
	}
	o.Remark("note: the versions in the cluster are not known: %s; --client leaves them out", why)
}

// installation is how many pods have a component in one version.
type installation struct {
	component, version string
	pods               int
}

var errMany = errors.New("the namespace has too many pods")

// installed counts the pods of the driver and the controller by their versions.
func installed(ctx context.Context, client kubernetes.Interface, namespace string) ([]installation, error) {
	var found []installation
	options := metav1.ListOptions{LabelSelector: labels, Limit: pageSize}
	for range mostPages {
		page, err := client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			found = counted(found, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			slices.SortFunc(found, func(a, b installation) int {
				return cmp.Or(-strings.Compare(a.component, b.component), strings.Compare(a.version, b.version))
			})
			return found, nil
		}
	}
	return nil, errMany
}

// counted adds a pod. Its container is called like the component.
func counted(found []installation, pod *corev1.Pod) []installation {
	next := installation{component: pod.Labels[labelComponent], pods: 1}
	for _, c := range pod.Spec.Containers {
		if c.Name == next.component {
			next.version = versionOf(c.Image)
		}
	}
	if next.version == "" {
		return found
	}
	same := slices.IndexFunc(found, func(i installation) bool {
		return i.component == next.component && i.version == next.version
	})
	if same < 0 {
		return append(found, next)
	}
	found[same].pods++
	return found
}

// versionOf returns the tag of an image, or the beginning of its digest where it has no tag.
func versionOf(image string) string {
	const shown = len("sha256:") + 12
	name, digest, _ := strings.Cut(image, "@")
	last := name[strings.LastIndex(name, "/")+1:] // The host before it may have a port.
	if _, tag, hasTag := strings.Cut(last, ":"); hasTag {
		return tag
	}
	return cmp.Or(digest[:min(len(digest), shown)], "latest")
}
