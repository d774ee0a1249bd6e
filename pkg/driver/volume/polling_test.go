package volume_test

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// polling returns the Event about a source of another namespace that the pod's service account may get and not watch.
func polling(ref api.Ref) string {
	return `Polling: volume "config": ` + ref.String() + " is read about twice a minute, because serviceaccount default/default " +
		"may get it but not watch it; to have changes at once, apply:\n" + access.Grant(access.Of(app), ref)
}

const projected = `Projected: volume "config": a change of the sources is in the files`

// TestAPolledSourceIsToldOnce from the start: the files follow it, and neither its polls, nor repeats, nor resyncs are news.
// The next run of the driver tells it once more.
func TestAPolledSourceIsToldOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		n.cluster.set(shared, "key", "k1")
		n.cluster.poll(shared)
		d, r := n.live(secret(shared))
		n.wantFiles(r, map[string]string{"key": "k1"})
		n.wantTold(polling(shared))
		n.set(shared, "key", "k2")
		n.wantFiles(r, map[string]string{"key": "k2"})
		n.wantTold(polling(shared), projected)
		for range 3 {
			n.cluster.poll(shared) // It was read again, and is as it was.
			d.publish(r)
			pass(2 * resyncInterval)
		}
		n.wantTold(polling(shared), projected)
		n.wantProblem(r, "") // It is current, as far as anybody knows.
		n.seen.forget()
		d.restart()
		pass(2 * resyncInterval)
		n.wantTold(polling(shared))
	})
}

// TestEachPolledSourceIsTold, but none that is watched.
func TestEachPolledSourceIsTold(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		other := api.Ref{Kind: api.ConfigMap, Namespace: "certs", Name: "roots"}
		for _, ref := range []api.Ref{web, tls, shared, other} {
			n.cluster.set(ref, ref.Namespace+"-"+ref.Name+"-"+ref.Kind.Resource(), "1")
		}
		n.cluster.poll(shared)
		n.live(map[string]string{api.KeySources: `[{configMap: {name: web}}, {secret: {name: tls}}, ` +
			`{secret: {name: tls, namespace: certs}}, {configMap: {name: roots, namespace: certs}}]`})
		n.wantTold(polling(shared))
		n.seen.forget()
		n.cluster.poll(other)
		pass(settling)
		n.wantTold(polling(other))
	})
}

// TestASourceThatTurnsPolledIsTold while the volume is live, each time that it does.
func TestASourceThatTurnsPolledIsTold(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		n.cluster.set(shared, "key", "k1")
		_, r := n.live(secret(shared))
		n.wantTold()
		for range 2 {
			n.seen.forget()
			n.cluster.poll(shared)
			pass(settling)
			n.wantTold(polling(shared))
			n.cluster.watch(shared)
			pass(settling)
			n.wantTold(polling(shared))
		}
		n.set(shared, "key", "k2")
		n.wantFiles(r, map[string]string{"key": "k2"})
		n.wantTold(polling(shared), projected)
	})
}

// TestAPolledSourceOfTheDrivers is for who installed the driver to mend: no grant to the pod's account would help.
func TestAPolledSourceOfTheDrivers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ref    api.Ref
		reader string
	}{
		"its own":              {tls, "driver"},
		"on behalf of a pod's": {shared, "driver for serviceaccount default/default"},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(tt.ref, "key", "k1")
			n.cluster.poll(tt.ref)
			d := n.start()
			d.publish(n.request("config", secret(tt.ref)))
			n.wantTold(`Polling: volume "config": ` + tt.ref.String() + " is read about twice a minute, because " + tt.reader +
				" may get it but not watch it; to have changes at once, add the verbs list and watch to the driver's ClusterRole")
		})
	}
}

// TestAPolledSourceThatIsReadOnceIsNotTold: a volume that never updates does not poll it.
func TestAPolledSourceThatIsReadOnceIsNotTold(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		n.cluster.set(shared, "key", "k1")
		n.cluster.poll(shared)
		_, r := n.live(secret(shared, api.KeyUpdatePolicy, string(api.UpdateNever)))
		n.wantFiles(r, map[string]string{"key": "k1"})
		pass(2 * resyncInterval)
		n.wantTold()
	})
}
