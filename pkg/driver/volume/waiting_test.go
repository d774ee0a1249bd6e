package volume_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

func forbidden(ref api.Ref) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: ref.Kind.Resource() + "s"}, ref.Name, errors.New("no"))
}

// TestPublishGivesUpWaiting has everything that a publish waits for in vain: how its error reads and that nothing is
// left. These are rules 7, 9, 11 and 58, and traps 1 and 4.
func TestPublishGivesUpWaiting(t *testing.T) {
	t.Parallel()
	const waiting = `WaitingForSource: volume "config": waiting for a source: `
	unavailable := apierrors.NewServiceUnavailable("out to lunch")
	tests := map[string]struct {
		attributes map[string]string
		prepare    func(c *cluster)
		kind       volume.Kind
		text       string
		event      string // Without its beginning; empty for none.
	}{
		"a ConfigMap does not exist": {
			attributes: configMap("web"),
			kind:       volume.Missing, text: `configmap "web" not found`, event: `configmap "web" not found`,
		},
		"a ConfigMap that may go later does not exist": {
			attributes: configMap("web", api.KeyOnDelete, string(api.OnDeleteRemove)),
			kind:       volume.Missing, text: `configmap "web" not found`, event: `configmap "web" not found`,
		},
		"a Secret does not exist": {
			attributes: map[string]string{api.KeySecret: "tls"},
			kind:       volume.Missing, text: `secret "tls" not found`, event: `secret "tls" not found`,
		},
		"a key does not exist": {
			attributes: configMap("web", api.KeyItems, `[{key: b, path: b}]`),
			prepare:    func(c *cluster) { c.set(web, "a", "1") },
			kind:       volume.Missing, text: "configmap references non-existent config key: b",
			event: "configmap references non-existent config key: b",
		},
		"all that is missing is named": {
			attributes: map[string]string{api.KeySources: `[{configMap: {name: web}}, {secret: {name: tls}}]`},
			kind:       volume.Missing, text: `[configmap "web" not found, secret "tls" not found]`,
			event: `[configmap "web" not found, secret "tls" not found]`,
		},
		"access is denied": {
			attributes: configMap("web"),
			prepare:    func(c *cluster) { c.fail(web, forbidden(web)) },
			kind:       volume.Denied, text: `configmap default/web cannot be read: configmaps "web" is forbidden: no`,
			event: `configmap default/web cannot be read: configmaps "web" is forbidden: no`,
		},
		"access is denied to an optional source": {
			attributes: configMap("web", api.KeyOptional, "true"),
			prepare:    func(c *cluster) { c.fail(web, forbidden(web)) },
			kind:       volume.Denied, text: `configmap default/web cannot be read: configmaps "web" is forbidden: no`,
			event: `configmap default/web cannot be read: configmaps "web" is forbidden: no`,
		},
		"the API server is in trouble": {
			attributes: configMap("web"),
			prepare:    func(c *cluster) { c.fail(web, unavailable) },
			kind:       volume.NotReady, text: "configmap default/web cannot be read: out to lunch",
			event: "configmap default/web cannot be read: out to lunch",
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			if tt.prepare != nil {
				tt.prepare(n.cluster)
			}
			d := n.start()
			began := time.Now()
			got := n.wantKind(d.Publish(n.ctx, n.request("config", tt.attributes), access.Token{}), tt.kind)
			if got != tt.text {
				n.Errorf("Publish() says %q, want %q", got, tt.text)
			}
			if got := time.Since(began) - latency; got != publishTimeout { // From the first answer on.
				n.Errorf("Publish() took %s from the first answer on, want %s", got, publishTimeout)
			}
			var want []string
			if tt.event != "" {
				want = []string{waiting + tt.event}
			}
			n.wantTold(want...)
			wantSame(n, "side effects", []string{"mounted"}, n.faults.order())
		})
	}
}

func TestPublishWaitsForEachThingInTurn(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.fail(web, forbidden(web))
		d := n.start()
		r := n.request("config", configMap("web", api.KeyItems, `[{key: b, path: b}]`))
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- d.Publish(n.ctx, r, access.Token{}) }()
		steps := []func(){
			func() { n.cluster.remove(web) },
			func() { n.cluster.fail(web, nil) },
			func() { n.cluster.set(web, "a", "1") },
			func() { n.cluster.set(web, "a", "2") }, // No news for the pod.
			func() { n.cluster.set(web, "b", "1") },
		}
		const rest = publishTimeout / 10
		for _, step := range steps {
			pass(rest)
			step()
		}
		n.must(<-done)
		if got, want := time.Since(began), time.Duration(len(steps))*rest; got != want {
			n.Errorf("Publish() took %s, want %s: it ends with what it waits for", got, want)
		}
		n.wantFiles(r, map[string]string{"b": "1"})
		const waiting = `WaitingForSource: volume "config": waiting for a source: `
		want := []string{
			waiting + `configmap default/web cannot be read: configmaps "web" is forbidden: no`,
			waiting + `configmap "web" not found`,
			waiting + `configmap references non-existent config key: b`,
		}
		n.wantTold(want...)
	})
}

func TestEventsNameThePodAndTheVolume(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		d.wantRefused(n.request("config", configMap("web")), volume.Missing)
		want := []event{{
			Pod: "default/app", Volume: "config", Reason: volume.ReasonWaiting,
			Note: `volume "config": waiting for a source: configmap "web" not found`,
		}}
		wantSame(n, "Events", want, n.seen.all())
	})
}

// TestSourceGoesBetweenWaitingAndWriting: what was there when the wait ended is gone when the files are written.
func TestSourceGoesBetweenWaitingAndWriting(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		n.faults.on("put", func() { n.cluster.remove(web) })
		got := n.wantKind(d.Publish(n.ctx, r, access.Token{}), volume.Missing)
		if want := `configmap "web" not found`; got != want {
			n.Errorf("Publish() says %q, want %q", got, want)
		}
	})
}

// TestAChangeDuringTheFirstWriteIsNotLost: it comes when the sources were read and the volume is not live yet.
func TestAChangeDuringTheFirstWriteIsNotLost(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "publish"} {
		for _, pause := range []time.Duration{0, settling} { // By then the driver has looked whether there is something to do.
			bubbleCase(t, fmt.Sprintf("%s and %s", op, pause), func(n *node) {
				d, r := n.ready()
				n.faults.on(op, func() {
					n.cluster.set(web, "a", "2")
					<-time.After(pause)
				})
				d.publish(r)
				pass(settling)
				n.wantFiles(r, map[string]string{"a": "2"})
			})
		}
	}
}
