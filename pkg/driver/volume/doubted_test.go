package volume_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// deniedTo is the text about an object that an identity may not read.
func deniedTo(id identity.Identity, ref api.Ref) string {
	return fmt.Sprintf("%s cannot be read: %v; to allow it, apply:\n%s", ref, forbidden(ref), identity.Grant(id, ref))
}

// The texts when the access is lost for good, for each wish.
var lost = map[api.OnDelete]string{
	api.OnDeleteKeep:   `AccessLost: volume "config": the files stay as they are: `,
	api.OnDeleteRemove: `AccessLost: volume "config": the files of the source are removed: `,
}

// left returns the files of a volume of the ConfigMap web, which holds a, when it has lost the object shared, with the key
// «key».
func left(onDelete api.OnDelete, a string) map[string]string {
	if onDelete == api.OnDeleteRemove {
		return map[string]string{"a": a}
	}
	return map[string]string{"a": a, "key": "k1"}
}

// eachDenial runs a test for everybody to whom an object can be denied, and every wish for what is to be done then.
func eachDenial(t *testing.T, test func(n *node, reader identity.Identity, onDelete api.OnDelete)) {
	t.Helper()
	t.Parallel()
	readers := map[identity.Reader]identity.Identity{identity.ByPod: identity.Of(app), identity.ByDriver: identity.OnBehalf(app)}
	for secrets, reader := range readers {
		for onDelete := range lost {
			bubbleCase(t, reader.String()+", "+string(onDelete), func(n *node) {
				n.secrets = secrets
				test(n, reader, onDelete)
			})
		}
	}
}

// publishedShared sets up a running driver with a volume of the ConfigMap web and the Secret shared.
func (n *node) publishedShared(onDelete api.OnDelete) (*driver, state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	n.cluster.set(shared, "key", "k1")
	d, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls, namespace: certs}}", api.KeyOnDelete, string(onDelete)))
	n.wantFiles(r, map[string]string{"a": "1", "key": "k1"})
	n.seen.forget()
	return d, r
}

// TestADenialIsDoubtedAtFirst: the API server may be wrong. At first the files stay under every `onDelete`, other changes reach
// them, the pod gets no Event, and condition and status show the denial. If the server allows the read again, the pod never
// gets an Event. If the denial lasts, the files follow `onDelete`, and the pod gets one Event.
func TestADenialIsDoubtedAtFirst(t *testing.T) {
	eachDenial(t, func(n *node, reader identity.Identity, onDelete api.OnDelete) {
		d, r := n.publishedShared(onDelete)
		problem := deniedTo(reader, shared)
		both := map[string]string{"a": "1", "key": "k1"}
		n.cluster.doubt(shared)
		for range 3 {
			n.fail(shared, forbidden(shared))
			n.wantShown(r, both, problem)
			n.fail(shared, nil)
			n.wantShown(r, both, "")
		}
		wantSame(n, "written times", 0, n.seen.results()[volume.ResultWritten])
		n.cluster.fail(shared, forbidden(shared))
		for range 3 {
			pass(2 * resyncInterval)
			d.publish(r)
		}
		n.wantShown(r, both, problem)
		n.wantReported()
		n.set(web, "a", "2")
		n.wantFiles(r, map[string]string{"a": "2", "key": "k1"})
		n.wantReported(projected)
		n.seen.forget()

		n.cluster.believe(shared)
		pass(settling)
		n.wantFiles(r, left(onDelete, "2"))
		for range 3 {
			pass(2 * resyncInterval)
			d.publish(r)
			n.cluster.fail(shared, forbidden(shared))
		}
		n.wantProblem(r, problem)
		n.wantReported(lost[onDelete] + problem)
		n.fail(shared, nil)
		n.wantFiles(r, map[string]string{"a": "2", "key": "k1"})
		n.wantReported(lost[onDelete]+problem, `Projected: volume "config": the files are current again`)
	})
}

// TestADoubtOverARestart begins again: the next run of the driver knows the source only from its files, and they stay until
// it has a reason itself. It removes what an earlier run has not, and leaves removed what that has.
func TestADoubtOverARestart(t *testing.T) {
	eachDenial(t, func(n *node, reader identity.Identity, onDelete api.OnDelete) {
		d, r := n.publishedShared(onDelete)
		n.cluster.doubt(shared)
		n.cluster.fail(shared, forbidden(shared))
		for range 2 {
			d = d.restart()
			pass(2 * resyncInterval)
			d.publish(r)
			n.wantShown(r, map[string]string{"a": "1", "key": "k1"}, deniedTo(reader, shared))
			n.wantReported()
		}
		n.cluster.believe(shared)
		pass(settling)
		n.wantFiles(r, left(onDelete, "1"))
		n.wantLastReported(lost[onDelete] + deniedTo(reader, shared))

		n.cluster.doubt(shared)
		d.restart()
		pass(2 * resyncInterval)
		n.wantFiles(r, left(onDelete, "1"))
		n.cluster.believe(shared)
		pass(settling)
		n.wantFiles(r, left(onDelete, "1"))
		n.fail(shared, nil)
		n.wantShown(r, map[string]string{"a": "1", "key": "k1"}, "")
	})
}

// TestWhatTheDriverMayNotReadTakesNoFiles: it was taken from no pod. A request gets the error, and it is not the pod's trouble.
func TestWhatTheDriverMayNotReadTakesNoFiles(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyOnDelete, string(api.OnDeleteRemove))
		n.cluster.fail(web, forbidden(web))
		problem := `configmap default/web cannot be read: configmaps "web" is forbidden: no` + driversRights("default")
		pass(2 * resyncInterval)
		n.wantProblem(r, problem)
		n.wantReported()
		for range 2 {
			d = d.restart()
			pass(2 * resyncInterval)
			d.publish(r)
			n.wantShown(r, map[string]string{"a": "1"}, problem)
		}
		for _, told := range n.seen.told() {
			if strings.Contains(told, "the files of the source are removed") {
				n.Errorf("the pod was told %q, want nothing of files that are removed", told)
			}
		}
	})
}

// wantLastReported checks the latest Event.
func (n *node) wantLastReported(want string) {
	n.Helper()
	told := n.seen.told()
	if len(told) == 0 || told[len(told)-1] != want {
		n.Errorf("Events = %q, want %q at last", told, want)
	}
}

// TestLostAccessIsReportedBesideOtherTrouble, whichever source comes first.
func TestLostAccessIsReportedBesideOtherTrouble(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k")
		_, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}"))
		n.cluster.fail(web, apierrors.NewServiceUnavailable("out to lunch"))
		n.fail(tls, forbidden(tls))
		n.wantProblem(r, deniedTo(identity.Of(app), tls))
		n.wantFiles(r, map[string]string{"a": "1", "key": "k"})
	})
}

// TestLostAccessIsReportedAlthoughAKeyIsMissing: without the key the driver cannot build the files. The files of the lost source
// stay under every `onDelete`, and no Event reports their removal. Once the key exists, the driver removes them and writes the
// Event.
func TestLostAccessIsReportedAlthoughAKeyIsMissing(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k")
		d, r := n.live(sources("{configMap: {name: web, items: [{key: a, path: a}]}}, {secret: {name: tls}}",
			api.KeyOnDelete, string(api.OnDeleteRemove)))
		n.seen.forget()
		n.set(web, "b", "1")
		const missing = "configmap references non-existent config key: a (configmap default/web, sources[0].configMap.items[0])"
		denied := deniedTo(identity.Of(app), tls)
		n.fail(tls, forbidden(tls))
		n.wantFiles(r, map[string]string{"a": "1", "key": "k"})
		both := "[" + denied + ", " + missing + "]"
		n.wantProblem(r, both)
		wantSame(n, "denied volumes", 1, d.Summary().NotCurrent[volume.Denied])
		n.wantUpdate(r, "2")
		n.wantProblem(r, denied)
		n.wantReported(
			`SourceMissing: volume "config": the files stay as they are: `+missing,
			lost[api.OnDeleteKeep]+both,
			lost[api.OnDeleteRemove]+denied,
		)
	})
}
