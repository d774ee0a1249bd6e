package volume_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestTroubleLeavesTheFiles is rule 47 and fault 3: whatever fails in the sources of a live volume, its files stay. The pod gets
// one Event, condition and status show the reason, and the driver stays healthy. When the problem ends, the volume is normal
// again.
func TestTroubleLeavesTheFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		begin   func(n *node) // Nil if err is all of it.
		err     error         // Of the source.
		kind    volume.Kind
		problem string
		delay   time.Duration // Until the problem is known.
		reason  volume.Reason // Of the Event; empty for none.
	}{
		"a required key goes": {
			begin: func(n *node) { n.cluster.set(web, "b", "1") },
			kind:  volume.Missing, problem: "configmap references non-existent config key: a (configmap default/web, items[0])", reason: volume.ReasonSourceMissing,
		},
		"the object goes": {
			begin: func(n *node) { n.cluster.remove(web) },
			kind:  volume.Missing, problem: `configmap "web" not found`, delay: absence, reason: volume.ReasonSourceMissing,
		},
		"access is revoked": {
			err: forbidden(web), kind: volume.Denied, problem: deniedTo(identity.Of(app), web), reason: volume.ReasonAccessLost,
		},
		"the API server is away": {
			err: errAway, kind: volume.NotReady, problem: "configmap default/web cannot be read: connection refused",
		},
		"the volume cannot be opened": {
			begin: func(n *node) {
				n.faults.set("open", syscall.EIO)
				n.cluster.set(web, "a", "2")
			},
			kind: volume.IO, problem: "open volume at %s: input/output error", reason: volume.ReasonFailed,
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.maps = identity.ByPod
			d, r := n.published(api.KeyItems, "[{key: a, path: a}]")
			before, began := n.version(web), time.Now()
			problem := strings.Replace(tt.problem, "%s", r.TargetPath, 1)
			n.cluster.fail(web, tt.err)
			if tt.begin != nil {
				tt.begin(n)
			}
			for range 4 {
				pass(resyncInterval)
				d.publish(r)
				n.must(d.Healthy())
			}
			n.wantShown(r, map[string]string{"a": "1"}, problem)
			since := began.Add(tt.delay)
			if tt.kind == volume.NotReady {
				since = time.Time{} // Nothing is known that is not in the files.
			}
			n.wantTrouble(&statusz.Problem{Kind: string(tt.kind), Message: problem, Since: since}, before, tt.err)
			want, last := []string(nil), projected
			if tt.reason != "" {
				want = []string{string(tt.reason) + `: volume "config": the files stay as they are: ` + problem}
				last = `Projected: volume "config": the files are current again`
			}
			n.wantReported(want...)

			n.cluster.set(web, "a", "3")
			synctest.Wait() // Else the sync may write what was there before, and then this change.
			n.faults.set("open", nil)
			n.fail(web, nil)
			n.wantShown(r, map[string]string{"a": "3"}, "")
			wantSame(n, "the status: problem", nil, d.only().Problem)
			n.wantLastReported(last)
		})
	}
}

// wantTrouble checks the status and the summary of the one volume, whose files are as before: it is
// in no other number.
func (n *node) wantTrouble(problem *statusz.Problem, before *statusz.Version, ofSource error) {
	n.Helper()
	got := n.driver.only()
	wantSame(n, "the status: problem", problem, got.Problem)
	wantSame(n, "the status: projected", before, got.Sources[0].Projected)
	if text := fmt.Sprint(ofSource); ofSource != nil && got.Sources[0].Error != text {
		n.Errorf("the status: error of the source = %q, want %q", got.Sources[0].Error, text)
	}
	if s := n.driver.Summary(); s.NotCurrent[volume.Kind(problem.Kind)] != 1 || s.Staleness != 0 {
		n.Errorf("Summary() = %+v, want one of kind %s", s, problem.Kind)
	}
}

// TestWhatChangesByItselfIsNoNews: the local port of each connection, in the network's errors about a source that is not known
// yet, to the pod that waits and after a restart to the one that runs.
func TestWhatChangesByItselfIsNoNews(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		lose := func() {
			for port := range 5 {
				n.fail(web, fmt.Errorf("read tcp 10.0.0.7:%d->10.0.0.1:443: connection reset by peer", 40000+port))
			}
		}
		d.stop()
		n.cluster.fail(web, errAway)
		d = n.start()
		pass(settling)
		lose()
		const text = "configmap default/web cannot be read: "
		n.wantReported(`ProjectionFailed: volume "config": the files stay as they are: ` + text + "connection refused")
		n.wantProblem(r, text+"read tcp 10.0.0.7:40004->10.0.0.1:443: connection reset by peer")

		d.unpublish(r)
		n.seen.forget()
		n.cluster.fail(web, errAway)
		published := d.publishing(r)
		pass(settling)
		lose()
		n.wantKind(<-published, volume.NotReady)
		n.wantReported(`WaitingForSource: volume "config": waiting for a source: ` + text + "connection refused")
	})
}

// TestFailureToWriteIsTriedAgain: the node's trouble ends without any event, so it is tried again, less and less often.
// This is rule 46.
func TestFailureToWriteIsTriedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		changed := time.Now()
		n.faults.set("open", syscall.EIO)
		n.cluster.set(web, "a", "2")
		pass(time.Hour)
		tries := n.faults.count("open")
		if tries < 30 || tries > 50 {
			n.Errorf("tried %d times in an hour, want every two minutes in the end", tries)
		}
		n.wantFiles(r, map[string]string{"a": "1"})
		n.faults.set("open", nil)
		pass(2 * time.Minute)
		n.wantFiles(r, map[string]string{"a": "2"})
		pass(time.Hour)
		if got := n.faults.count("open") - tries; got > 2+int(2*time.Hour/resyncInterval) {
			n.Errorf("opened %d times more: once written, and looked at, is enough", got)
		}
		// The change has been waiting all the time.
		last := n.seen.outcomes()[tries]
		if want := (outcome{result: volume.ResultWritten, since: changed}); last != want {
			n.Errorf("last sync = %v, want %v", last, want)
		}
	})
}

// TestTroubleOfTheClusterIsNotTriedAgain: it ends with an event, and until then a retry costs for nothing.
func TestTroubleOfTheClusterIsNotTriedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		n.cluster.remove(web)
		pass(time.Hour)
		wantSame(n, "failed", 1, n.seen.results()[volume.ResultFailed])
		n.cluster.set(web, "a", "2")
		changed := time.Now()
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "2"})
		// The time since the deletion is nobody's latency.
		wantSame(n, "written for the change of", changed, n.seen.outcomes()[1].since)
	})
}

// TestFailingWriteLeavesTheFiles: the writer itself fails, on a name that no file system takes. This is rule 46 (trap
// 3). This is fault 3.
func TestFailingWriteLeavesTheFiles(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		n.set(web, "a", "2", strings.Repeat("n", 256), "")
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantProblemIs(r, syscall.ENAMETOOLONG)
		n.wantUpdate(r, "1")
		n.wantProblem(r, "")
	})
}

// TestSecretsStayInTheFiles: no byte of one is in a log line, an Event, an error or a record, whatever goes wrong.
func TestSecretsStayInTheFiles(t *testing.T) {
	bubble(t, func(n *node) {
		const bytes = "hunter2-hunter2"
		n.cluster.set(tls, "key", bytes)
		d, r := n.live(map[string]string{api.KeySecret: "tls", api.KeyItems: "[{key: key, path: a}]"})
		n.wantFiles(r, map[string]string{"a": bytes})
		n.faults.set("open", syscall.ENOSPC)
		n.set(tls, "key", bytes+"2")
		n.fail(tls, apierrors.NewUnauthorized("token expired"))
		d = d.restart()
		n.faults.set("open", nil)
		n.cluster.fail(tls, nil)
		n.set(tls, "other", bytes)
		problem, err := d.Condition(r.VolumeID, "")
		records, listErr := n.records.all()
		if len(records) != 1 || listErr != nil {
			n.Fatalf("Each() = %v, %v, want one record", records, listErr)
		}
		for where, text := range map[string]string{
			"log": n.logs.String(), "Events": fmt.Sprint(n.seen.told()),
			"condition": fmt.Sprint(problem, err), "records": fmt.Sprintf("%+v", records),
		} {
			if text == "" || strings.Contains(text, "hunter2") {
				n.Errorf("%s: %q, want something that holds no byte of the secret", where, text)
			}
		}
	})
}
