package volume_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestATokenIsHeldAsLongAsItsVolume: no longer, because its pod is gone then, and no less, because the volume is updated.
func TestATokenIsHeldAsLongAsItsVolume(t *testing.T) {
	bubble(t, func(n *node) {
		n.maps = access.ByPod
		d, r := n.ready()
		want := func(want access.Token, when string) {
			n.Helper()
			if got := n.tokens.of(r.VolumeID); got != want {
				n.Errorf("%s: the token held is %v, want %v", when, got, want)
			}
		}
		token := func(value string) access.Token { return access.NewToken(value, time.Now().Add(time.Hour)) }

		first := token("first")
		n.must(d.Publish(n.ctx, r, first))
		want(first, "after a publish")
		other := r
		other.Attributes = configMap("other")
		n.wantKind(d.Publish(n.ctx, other, token("not ours")), volume.Different)
		want(first, "after a request that was no repeat")
		second := token("second")
		n.must(d.Publish(n.ctx, r, second))
		d.publish(r) // Without one.
		want(second, "after repeats")
		d = d.restart()
		want(second, "after a restart")
		d.unpublish(r)
		want(access.Token{}, "after an unpublish")

		n.cluster.remove(web)
		n.wantKind(d.Publish(n.ctx, r, token("third")), volume.Missing)
		want(access.Token{}, "after a publish that failed")
		n.must(n.tokens.Store(r.VolumeID, r.Pod, first))
		d.restart()
		want(access.Token{}, "after a restart without the volume")
	})
}

// TestATokenThatIsOfNoUseIsNotHeld: where the driver reads with its own credentials, the pod's are nobody's business.
func TestATokenThatIsOfNoUseIsNotHeld(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		for _, when := range []string{"after a publish", "after a repeat", "after a repeat for a volume that nothing is known of"} {
			n.must(d.Publish(n.ctx, r, access.NewToken("token", time.Now().Add(time.Hour))))
			if got := n.tokens.of(r.VolumeID); !got.IsZero() {
				n.Errorf("%s: a token is held, want none", when)
			}
			if when == "after a repeat" {
				d.stop()
				n.must(n.records.Store.Delete(r.VolumeID))
				d = n.start()
			}
		}
	})
}

// TestATokenThatNothingReadsWithAnyMoreIsNotHeld: a volume that never updates has been read once and for all when it is
// published. Neither a repeat nor a restart holds its token again, and what an earlier version of the driver held goes.
func TestATokenThatNothingReadsWithAnyMoreIsNotHeld(t *testing.T) {
	bubble(t, func(n *node) {
		n.maps = access.ByPod
		n.cluster.set(web, "a", "1")
		d := n.start()
		r := n.request("config", configMap("web", "updatePolicy", "Never"))
		token := access.NewToken("token", time.Now().Add(time.Hour))
		publish := func() {
			n.Helper()
			n.must(d.Publish(n.ctx, r, token))
		}
		want := func(when string) {
			n.Helper()
			if got := n.tokens.of(r.VolumeID); !got.IsZero() {
				n.Errorf("%s: a token is held, want none", when)
			}
		}
		publish()
		wantSame(n, "tokens that were held for the first read:", 1, n.tokens.kept(r.VolumeID))
		want("after a publish")
		publish()
		want("after a repeat")
		if err := n.tokens.Store(r.VolumeID, r.Pod, token); err != nil { // As an earlier version did.
			n.Fatal(err)
		}
		d = d.restart()
		want("after a restart")
		publish()
		want("after a repeat for a volume of an earlier run")
		d.stop()
		n.must(n.records.Store.Delete(r.VolumeID))
		n.start()
		publish()
		want("after a repeat for a volume that nothing is known of")
		wantSame(n, "tokens that were held:, want no more than that of the publish and this test's own", 2, n.tokens.kept(r.VolumeID))
	})
}
