package why

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// step is one place on the way of an edit.
type step struct {
	// place is where, and what is so there.
	place, what string
	// next is what to type; set only for the step where the edit stopped, and perhaps for the last.
	next string
	// isStop means that the edit stopped here, and isOfVolume that the problem is the volume's: it
	// may be that of another object in it.
	isStop, isOfVolume bool
}

// mount is where a container sees a volume.
type mount struct{ container, path, subPath string }

// facts are all that is known of one object in one volume of a pod.
type facts struct {
	pod     string // Its name.
	account string // Namespace/name of its service account.
	node    string // Empty while the pod is on none.
	volume  string
	policy  api.UpdatePolicy
	// object is what people edit, and names what the volume names: the object or a copy of it.
	object, names api.Ref
	optional      bool
	// behind is what the pod has of an object of which the volume names a copy.
	behind versions.Verdict
	mounts []mount

	edit observe.Edit
	// now is what the API server has, and err why that is not known.
	now versions.Now
	err error
	// answer is that of the node's driver, and failed the problem that the kubelet reports with the
	// volume.
	answer nodes.Answer
	uid    string
	failed string
	at     time.Time
}

// name is how the object is typed.
func (f facts) name() string { return release.NameOf(f.object) }

// shown is how an object is named in the namespace of the pod.
func (f facts) shown(ref api.Ref) string {
	namespace, _, _ := strings.Cut(f.account, "/")
	return ref.SeenFrom(namespace)
}

func (f facts) kubectl(format string, args ...any) string {
	return fmt.Sprintf("kubectl -n %s ", f.object.Namespace) + fmt.Sprintf(format, args...)
}

// trail returns the steps of the edit, in order, up to the first at which it stopped.
func (f facts) trail() []step {
	var steps []step
	for _, look := range []func() step{
		f.edited, f.served, f.heard, f.allowed, f.released, f.fits, f.written, f.mounted,
	} {
		next := look()
		steps = append(steps, next)
		if next.isStop {
			return steps
		}
	}
	return append(steps, step{
		place: "program", what: "the container sees the edit; whether the program has read it again is not known",
		next: "see docs/watching.md: watch the directory, or send the program its signal",
	})
}

func stop(place, next, format string, args ...any) step {
	return step{place: place, what: fmt.Sprintf(format, args...), next: next, isStop: true}
}

func isSo(place, format string, args ...any) step {
	return step{place: place, what: fmt.Sprintf(format, args...)}
}

// edited is who edited the object last.
func (f facts) edited() step {
	if f.edit.At.IsZero() {
		return isSo("edit", "who edited %s last is not recorded", f.shown(f.object))
	}
	edited := f.shown(f.object)
	if f.edit.Member != (api.Ref{}) {
		edited = f.shown(f.edit.Member) + ", which is one of " + edited
	}
	return isSo("edit", "%s edited %s %s ago", cmp.Or(f.edit.By, "somebody"), edited, f.ago(f.edit.At))
}

func (f facts) ago(t time.Time) string { return f.at.Sub(t).Round(time.Second).String() }

// served is what the API server has.
func (f facts) served() step {
	switch {
	case f.err != nil && f.now.Version == nil:
		return isSo("API server", "what it has is not known: %v", f.err)
	case f.now.Version == nil && f.optional:
		return isSo("API server", "%s does not exist, and it is optional", f.name())
	case f.now.Version == nil:
		return stop("API server", f.kubectl("get %s; create it", f.name()), "%s does not exist", f.name())
	}
	return isSo("API server", "it has version %s", f.now.Version.ResourceVersion)
}

// heard is whether the node's driver has received the edit. One that was denied access has not: see
// allowed.
func (f facts) heard() step {
	const place = "watch of the node"
	volume, source := f.reported()
	switch {
	case f.isCopied() && f.behind.State == versions.Lagging && f.behind.Has != "":
		return stop("rollout", "kubectl liveconfig status; docs/rollouts.md explains when a change waits",
			"the volume has the copy %s: %s", f.names.Name, f.behind.Why)
	case f.node == "":
		return stop(place, fmt.Sprintf("kubectl describe pod %s", f.pod), "the pod is on no node yet")
	case f.answer.Err != nil:
		return stop(place, f.answer.Err.Type, "the driver of node %s cannot be asked: %s", f.node, f.answer.Err.Reason())
	case volume == nil && f.failed != "":
		return stop(place, fmt.Sprintf("kubectl describe pod %s", f.pod), "the volume could not be mounted: %s", f.failed)
	case volume == nil:
		return stop(place, fmt.Sprintf("kubectl describe pod %s", f.pod), "the driver of node %s has no such volume", f.node)
	case source == nil:
		return stop(place, "replace the pod", "the driver of node %s does not have %s in the volume", f.node, f.name())
	case f.hasHeard(source):
		return isSo(place, "the driver of node %s received it %s ago", f.node, f.ago(source.ChangedAt))
	case f.isDenied(volume, source):
		return isSo(place, "the driver of node %s is denied the object", f.node)
	case source.Error != "":
		return stop(place, "check the network between the node and the API server", "the driver of node %s: %s", f.node,
			source.Error)
	case source.Polled:
		return stop(place, fmt.Sprintf("kubectl liveconfig grant pod/%s; the edit comes within 30 s", f.pod),
			"the driver of node %s polls the object, because its reader may not list and watch it", f.node)
	}
	return stop(place, "wait; the driver replaces a dead watch within 3 minutes",
		"the driver of node %s has %s and not the edit", f.node, versionOf(source.Known))
}

func (f facts) isCopied() bool { return f.names != f.object }

func (f facts) hasHeard(source *statusz.Source) bool {
	isKnown := source.Known != nil
	return f.now.Version == nil || isKnown && (f.isCopied() || *source.Known == *f.now.Version)
}

// reported is the volume and the object as the node's driver reports them, or nil.
func (f facts) reported() (*statusz.Volume, *statusz.Source) {
	volume := f.answer.Report.Volume(f.uid, f.volume)
	if volume == nil {
		return nil, nil
	}
	i := slices.IndexFunc(volume.Sources, func(s statusz.Source) bool { return versions.RefOf(s) == f.names })
	if i < 0 {
		return volume, nil
	}
	return volume, &volume.Sources[i]
}

func versionOf(v *statusz.Version) string {
	if v == nil {
		return "nothing"
	}
	return "version " + v.ResourceVersion
}

// The kinds of problems that steps stand for, as drivers report them.
const (
	denied    = "Denied"
	exhausted = "Exhausted"
)

func (f facts) isDenied(volume *statusz.Volume, source *statusz.Source) bool {
	isProblem := volume.Problem != nil && volume.Problem.Kind == denied
	return source.Revoked || isProblem && source.Error != ""
}

// allowed is whether the object may be read for the pod.
func (f facts) allowed() step {
	volume, source := f.reported()
	if !f.isDenied(volume, source) {
		return isSo("rights", "%s may read it", source.ReadBy)
	}
	next := fmt.Sprintf("kubectl liveconfig grant pod/%s", f.pod)
	if !strings.Contains(source.ReadBy, f.account) { // The driver reads it for itself.
		next = "what its Event prints: kubectl describe pod " + f.pod
	}
	return stop("rights", next, "%s may not read it: %s", source.ReadBy, firstLine(source.Error))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "; to allow it, apply:")
}

// released is whether the release of the edit has reached the pod.
func (f facts) released() step {
	_, source := f.reported()
	switch {
	case source.Release == nil:
		return isSo("release", "edits of it go to all pods at once")
	case source.Release.IsShown:
		return isSo("release", "the edit is shown to this pod")
	}
	return stop("release", "kubectl liveconfig release status "+f.name(), "the pod gets the stable copy (%s)",
		cmp.Or(source.Release.State, "no release is under way"))
}

// fits is whether the node has room for the edit.
func (f facts) fits() step {
	volume, _ := f.reported()
	if volume.Problem == nil || volume.Problem.Kind != exhausted {
		return isSo("room", "the node has room for the volume")
	}
	return stop("room", "raise resources.limits.memory of the DaemonSet, or delete pods with large volumes", "%s",
		firstLine(volume.Problem.Message))
}

// written is whether the edit is in the files.
func (f facts) written() step {
	volume, source := f.reported()
	describe := "kubectl liveconfig describe pod/" + f.pod
	switch {
	case f.isWritten(source):
		return isSo("files", "the edit is in the files of volume %s, written %s", f.volume, f.agoOr(volume.ProjectedAt))
	case volume.Problem != nil:
		at := stop("files", describe, "%s: %s", volume.Problem.Kind, firstLine(volume.Problem.Message))
		at.isOfVolume = true
		return at
	case f.policy == api.UpdateNever:
		return stop("files", f.renew(), "the volume has the update policy Never")
	case volume.State == statusz.Frozen:
		return stop("files", "correct the attributes and replace the pod", "the driver no longer updates the volume")
	}
	return stop("files", describe, "the files have %s; the driver is about to write the edit", versionOf(source.Projected))
}

// renew is what to type for a pod that shows an edit only after it was made again.
func (f facts) renew() string {
	return "kubectl delete pod " + f.pod + ", if a controller makes it again"
}

func (f facts) isWritten(source *statusz.Source) bool {
	isStable := source.Release != nil && source.Projected != nil && *source.Projected == source.Release.Stable
	isSame := source.Projected == nil && source.Known == nil || source.Projected != nil && source.Known != nil &&
		*source.Projected == *source.Known
	return isSame || isStable
}

func (f facts) agoOr(t time.Time) string {
	if t.IsZero() {
		return "by an earlier run of the driver"
	}
	return f.ago(t) + " ago"
}

// mounted is whether containers see the files. A subPath mount shows the file that was there when
// the container started, unless the driver writes in place.
func (f facts) mounted() step {
	if len(f.mounts) == 0 {
		return stop("mount", "add it to volumeMounts of a container", "no container mounts volume %s", f.volume)
	}
	for _, m := range f.mounts {
		if m.subPath != "" && f.policy != api.UpdateInPlace {
			return stop("mount", f.renew()+"; with updatePolicy: InPlace the next edit arrives by itself",
				"container %s mounts %s by subPath %s, which shows the file of its start", m.container, m.path, m.subPath)
		}
	}
	return isSo("mount", "container %s sees it at %s", f.mounts[0].container, f.mounts[0].path)
}

// isBelow reports whether a path is another one or below it.
func isBelow(file, dir string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(path.Clean(dir), "/")+"/")
}
