package volume_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestLostAccessIsToldBesideOtherTrouble, whichever source comes first.
func TestLostAccessIsToldBesideOtherTrouble(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k")
		_, r := n.live(map[string]string{api.KeySources: "[{configMap: {name: web}}, {secret: {name: tls}}]"})
		n.cluster.fail(web, apierrors.NewServiceUnavailable("out to lunch"))
		n.fail(tls, forbidden(tls))
		n.wantProblem(r, deniedTo(access.Of(app), tls))
		n.wantFiles(r, map[string]string{"a": "1", "key": "k"})
	})
}

// TestLostAccessIsToldAlthoughAKeyIsMissing: the files cannot be made without it, so those of the lost source stay, whatever its
// owner's wish was, and nobody is told that they went. When the key is there they go, and that is told.
func TestLostAccessIsToldAlthoughAKeyIsMissing(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k")
		d, r := n.live(map[string]string{
			api.KeySources:  "[{configMap: {name: web, items: [{key: a, path: a}]}}, {secret: {name: tls}}]",
			api.KeyOnDelete: string(api.OnDeleteRemove),
		})
		n.seen.forget()
		n.set(web, "b", "1")
		const missing = "configmap references non-existent config key: a"
		denied := deniedTo(access.Of(app), tls)
		n.fail(tls, forbidden(tls))
		n.wantFiles(r, map[string]string{"a": "1", "key": "k"})
		both := "[" + denied + ", " + missing + "]"
		n.wantProblem(r, both)
		if s := d.Summary(); s.NotCurrent[volume.Denied] != 1 {
			n.Errorf("Summary() = %+v, want one that is denied", s)
		}
		n.wantUpdate(r, "2")
		n.wantProblem(r, denied)
		n.wantTold(
			`SourceMissing: volume "config": the files stay as they are: `+missing,
			lost[api.OnDeleteKeep]+both,
			lost[api.OnDeleteRemove]+denied,
		)
	})
}
