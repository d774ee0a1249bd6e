package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// The consequences of a problem for the files.
const (
	filesStay = "the files stay as they are"
	filesGo   = "the files of the source are removed"
)

// reported is what the Events of one volume have reported.
type reported struct {
	problem string       // The fingerprint of the last problem; empty for none.
	polled  []source.Key // The sources that are polled.
	leftOut string       // The keys that mount points leave no place for; empty for none.
	// collisions are the keys of selected objects that have no file; empty for none.
	collisions string
}

// outcome is how the sync of a live projection ended.
type outcome struct {
	result      Result
	problem     error
	consequence string // Of the problem, for the files.
}

// report stores the problem of a live projection, if any, and writes an Event for each of its
// volumes if the problem is new.
func (h held) report(ctx context.Context, o outcome) {
	h.setProblem(o.problem)
	for _, v := range h.volumes {
		h.reportTo(ctx, v, o)
	}
}

func (h held) reportTo(ctx context.Context, v *volume, o outcome) {
	before := v.events.problem
	v.events.problem = ""
	o.problem = h.problemOf(v)
	if o.problem != nil {
		v.events.problem = o.consequence + ": " + fingerprint(o.problem)
	}
	switch {
	case o.problem != nil && v.events.problem != before:
		klog.FromContext(ctx).Error(o.problem, "A live volume is not current: "+o.consequence,
			logkeys.VolumeID, v.record.VolumeID, logkeys.Pod, v.record.Pod)
		h.node.event(v, reasonOf(o.problem), "%s: %v", o.consequence, o.problem)
	case o.problem == nil && before != "":
		h.node.event(v, ReasonProjected, "the files are current again")
	case o.problem == nil && o.result == ResultWritten:
		h.node.event(v, ReasonProjected, "a change of the sources is in the files")
	}
}

// reportPolled writes an Event for each volume, once, for each source that is polled, with what
// lets the driver watch it.
func (h held) reportPolled(polled []source.Key) {
	for _, v := range h.volumes {
		if !slices.Equal(v.events.polled, polled) { // They are equal after nearly each sync.
			h.reportPolledTo(v, polled)
		}
		v.events.polled = polled
	}
}

func (h held) reportPolledTo(v *volume, polled []source.Key) {
	before := make(map[source.Key]bool, len(v.events.polled)) // There may be thousands.
	for _, key := range v.events.polled {
		before[key] = true
	}
	for _, key := range polled {
		if !before[key] {
			h.node.event(v, ReasonPolling,
				"%s is read about twice a minute, because %s may get it but not watch it; to have changes at once, %s",
				key.Ref, key.Identity, howToWatch(key))
		}
	}
}

// reportLeftOut writes an Event for each volume when other keys than before have no file, because
// mount points have their places.
func (h held) reportLeftOut() {
	leftOut, collisions := strings.Join(h.facts.leftOut, ", "), strings.Join(h.facts.collisions, ", ")
	for _, v := range h.volumes {
		if leftOut != "" && leftOut != v.events.leftOut {
			h.node.event(v, ReasonPathTaken, "left out, because mountPoints keeps the place: %s", leftOut)
		}
		v.events.leftOut = leftOut
		if collisions != "" && collisions != v.events.collisions {
			h.node.event(v, ReasonPathTaken, "left out of the selected objects: %s", collisions)
		}
		v.events.collisions = collisions
	}
}

// howToWatch returns what lets the reader of a polled source watch it.
func howToWatch(key source.Key) string {
	if !isReadByPod(key) {
		return "add the verbs list and watch to the driver's ClusterRole"
	}
	return "apply:\n" + identity.Grant(key.Identity, key.Ref)
}

// isReadByPod reports whether a source is read with the pod's own credentials.
func isReadByPod(key source.Key) bool {
	return key.Identity != identity.Driver() && !key.Identity.ByDriver
}

func (n *node) event(v *volume, reason Reason, format string, args ...any) {
	n.reporter.Event(v.record.Pod, v.name(), reason,
		fmt.Sprintf("volume %q: "+format, append([]any{v.name()}, args...)...))
}
