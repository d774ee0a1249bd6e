// Package why is `kubectl liveconfig why`: it follows the last edit of an object on its way into a
// pod, and prints where it stopped.
//
// It does not know how the API server and the drivers of nodes are asked: that is up to
// pkg/cli/observe.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// longestPath is how long a path in a container may be. Linux has no longer ones.
const longestPath = 4096

type command struct {
	*session.Session

	driver observe.Flags
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:         "why pod/NAME [PATH]",
		Annotations: session.Kinds("pod"),
		Short:       "Show where an edit stopped on its way into a pod",
		Long: "Follows the last edit of a ConfigMap or Secret into a pod: who edited it and when, the API server, the " +
			"watch of the\n" +
			"node, rights, release, room, files and mount. Prints one line for each, at most ten, up to the first that is " +
			"not so,\n" +
			"and what to type. The driver of the node is asked through a port-forward. Nothing that objects hold is " +
			"shown.\n\n" +
			"Without PATH, which is a file or directory in a container, all volumes of liveconfig in the pod are looked " +
			"at: an\n" +
			"edit that stopped comes before one that arrived, and the last one first.\n\n" +
			"The exit code is 1 if the edit stopped.",
		Example: "  kubectl liveconfig why pod/web-0\n" +
			"  kubectl liveconfig why pod/web-0 /etc/web/app.yaml",
		Args: podAndPath,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.driver.AddFlags(c)
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	name, err := podName(args[0])
	if err != nil {
		return err
	}
	file, err := filePath(args[1:])
	if err != nil {
		return err
	}
	asked, err := observe.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	pod, err := asked.Client.CoreV1().Pods(session.NamespaceOr(o.Session, "")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	all, err := placesOf(pod, asked.Driver, file)
	if err != nil {
		return err
	}
	return o.print(o.follow(ctx, asked, pod, all))
}

func podName(arg string) (string, error) {
	kind, name, hasKind := strings.Cut(arg, "/")
	if !hasKind || name == "" || !slices.Contains([]string{"pod", "pods", "po"}, kind) {
		return "", fmt.Errorf("%q is no pod: type pod/NAME, see kubectl get pods", api.Shorten(arg))
	}
	return name, nil
}

// filePath returns the path in a container, or nothing for all.
func filePath(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args[0]) > longestPath || !path.IsAbs(args[0]):
		return "", fmt.Errorf("the path %q does not begin with /, or is longer than %d bytes", api.Shorten(args[0]),
			longestPath)
	}
	return path.Clean(args[0]), nil
}

// follow asks for everything that is known of the places, and returns the way of the edit that
// matters most.
func (o *command) follow(ctx context.Context, asked *observe.Cluster, pod *corev1.Pod, all []place) []step {
	look := &observe.Pod{Pod: pod, AsksNode: pod.Spec.NodeName != ""}
	for _, p := range all {
		look.Places = append(look.Places, p.Place)
	}
	self := &observe.Selector{Workload: selection.Workload{Pod: pod}}
	workload := &observe.Workload{Selector: self, Running: []*observe.Pod{look}}
	found := asked.Observe(ctx, []*observe.Workload{workload}, nil)
	failed := asked.FailedMounts(ctx, pod.Namespace, workload.Running)[string(pod.UID)]
	var trails []trail
	for _, p := range all {
		f := p.facts
		f.pod, f.uid, f.node, f.at = pod.Name, string(pod.UID), pod.Spec.NodeName, time.Now()
		f.account = pod.Namespace + "/" + pod.Spec.ServiceAccountName
		f.answer, f.failed = found.Answers[pod.Spec.NodeName], failed[f.volume]
		f.now, f.err = found.Objects[f.object].Now, found.Objects[f.object].Err
		f.edit, _ = asked.LastEdit(ctx, f.object) // Its error is that of reading the version.
		if p.IsCopy() {
			f.behind = found.Judge(workload, look, p.Place)
		}
		trails = append(trails, trail{f.edit.At, f.trail()})
	}
	return slices.MinFunc(trails, trail.compare).steps
}

// trail is the way of one edit.
type trail struct {
	at    time.Time
	steps []step
}

// compare puts what stopped first, and then the last edit. An object that may not be read keeps
// those beside it in the volume from being written: it is the cause, and they come after it.
func (t trail) compare(other trail) int {
	return cmp.Or(cmp.Compare(t.rank(), other.rank()), other.at.Compare(t.at))
}

// rank returns 0 for what stopped by itself, 1 for what may wait for another object, and 2 for what
// arrived.
func (t trail) rank() int {
	switch last := t.steps[len(t.steps)-1]; {
	case !last.isStop:
		return 2
	case last.isOfVolume:
		return 1
	}
	return 0
}

// print prints a line for each step and one for what to type.
func (o *command) print(steps []step) error {
	var rows [][]string
	for _, s := range steps {
		mark := "ok"
		switch {
		case s.isStop:
			mark = "STOP"
		case s.next != "":
			mark = "?"
		}
		rows = append(rows, []string{mark, s.place, printing.PlainLine(s.what)})
	}
	last := steps[len(steps)-1]
	rows = append(rows, []string{"type", "", printing.PlainLine(last.next)})
	err := printing.Table(o.Out, 2, rows)
	if last.isStop {
		err = errors.Join(err, &session.Exit{Code: 1})
	}
	return err
}

// place is where a pod shows an object, with the part of its spec about that.
type place struct {
	versions.Place
	facts
}

// placesOf returns where a pod shows objects by volumes of liveconfig: all, or those that the path
// can come from.
func placesOf(pod *corev1.Pod, driver, file string) ([]place, error) {
	found, mistakes := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, driver)
	var all []place
	var seen []string
	for _, at := range found {
		if at.Volume == "" {
			continue
		}
		spec := specOf(pod, at.Volume)
		mounts := mountsOf(pod, at.Volume)
		f := facts{volume: at.Volume, object: at.Object, names: at.Names, policy: spec.UpdatePolicy, mounts: mounts}
		f.optional = !slices.ContainsFunc(spec.Sources, func(s api.Source) bool { return isOf(s, at.Names) && !s.Optional })
		for _, m := range mounts {
			seen = append(seen, m.path)
		}
		isOther := func(m mount) bool { return !isBelow(file, m.path) || !shows(spec, at.Names, m, file) }
		if file != "" {
			f.mounts = slices.DeleteFunc(mounts, isOther)
		}
		if file == "" || len(f.mounts) > 0 {
			all = append(all, place{Place: at, facts: f})
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case mistakes != nil:
		return nil, mistakes
	case len(seen) == 0 || file == "":
		return nil, fmt.Errorf("pod/%s has no volume of liveconfig: "+
			"kubectl liveconfig describe pod/%[1]s shows what else it uses", pod.Name)
	}
	slices.Sort(seen)
	return nil, fmt.Errorf("no volume of liveconfig makes %s; those of pod/%s are at %s", file, pod.Name,
		strings.Join(slices.Compact(seen), ", "))
}

// isOf reports whether a source is an object, or selects what the ref stands for.
func isOf(s api.Source, ref api.Ref) bool { return s.Ref == ref || slices.Contains(s.Selected(), ref) }

// specOf returns the parsed attributes of a volume, which [versions.Places] has parsed before.
func specOf(pod *corev1.Pod, volume string) api.Spec {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	spec, _ := api.Parse(pod.Spec.Volumes[i].CSI.VolumeAttributes, pod.Namespace)
	return spec
}

func mountsOf(pod *corev1.Pod, volume string) []mount {
	var all []mount
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, m := range c.VolumeMounts {
			if m.Name == volume {
				all = append(all, mount{container: c.Name, path: path.Clean(m.MountPath), subPath: m.SubPath + m.SubPathExpr})
			}
		}
	}
	return all
}

// shows reports whether a source can make a file that a mount shows, or something below it.
func shows(spec api.Spec, source api.Ref, m mount, file string) bool {
	below := strings.TrimPrefix(strings.TrimPrefix(file, m.path), "/")
	inVolume := path.Join("/", m.subPath, below)
	for _, s := range spec.Sources {
		if !isOf(s, source) {
			continue
		}
		if s.Selection != nil {
			if s.Selection.MayMake(source.Namespace, strings.TrimPrefix(inVolume, "/")) {
				return true
			}
			continue
		}
		made := []string{}
		for _, item := range s.Items {
			made = append(made, path.Join("/", item.Path))
		}
		if s.As != nil {
			made = []string{path.Join("/", s.As.Path)}
		}
		if len(made) == 0 || slices.ContainsFunc(made, func(f string) bool { return isBelow(f, inVolume) }) {
			return true
		}
	}
	return false
}

// podAndPath refuses everything but a pod and at most one path.
func podAndPath(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("name a pod, such as pod/web-0; see kubectl get pods")
	case 1, 2:
		return nil
	}
	return fmt.Errorf("name one pod and one file or directory in it: %q is too much", args[2])
}
