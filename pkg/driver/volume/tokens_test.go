package volume_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
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

// TestATokenThatIsOfNoUseIsNotHeld: where the driver reads with its own credentials the pod's are nobody's business, and a volume
// that never updates is read once, at its publish. Neither a repeat nor a restart holds its token again, and what an earlier
// version of the driver held goes.
func TestATokenThatIsOfNoUseIsNotHeld(t *testing.T) {
	t.Parallel()
	tests := map[api.UpdatePolicy]struct {
		maps  access.Reader
		first int // How many tokens are held for the first read.
	}{
		api.UpdateAtomic: {access.ByDriver, 0},
		api.UpdateNever:  {access.ByPod, 1},
	}
	for policy, tt := range tests {
		bubbleCase(t, string(policy), func(n *node) {
			n.maps = tt.maps
			held := tt.first
			n.cluster.set(web, "a", "1")
			d := n.start()
			r := n.request("config", configMap("web", api.KeyUpdatePolicy, string(policy)))
			token := access.NewToken("token", time.Now().Add(time.Hour))
			publish := func(when string) {
				n.Helper()
				n.must(d.Publish(n.ctx, r, token))
				if got := n.tokens.of(r.VolumeID); !got.IsZero() {
					n.Errorf("%s: a token is held, want none", when)
				}
				wantSame(n, when+": tokens that were held", held, n.tokens.kept(r.VolumeID))
			}
			publish("after a publish")
			publish("after a repeat")
			if policy == api.UpdateNever {
				n.must(n.tokens.Store(r.VolumeID, r.Pod, token)) // As an earlier version did.
				held++
				d = d.restart()
				wantSame(n, "the token after a restart", access.Token{}, n.tokens.of(r.VolumeID))
			}
			publish("after a repeat for a volume of an earlier run")
			d.stop()
			n.must(n.records.Store.Delete(r.VolumeID))
			d = n.start()
			publish("after a repeat for a volume that nothing is known of")
		})
	}
}
