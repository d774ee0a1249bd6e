package volume_test

import (
	"errors"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestAReleasedObjectOfTwoSources: a volume uses its stable copy once, until neither source shows it as released.
func TestAReleasedObjectOfTwoSources(t *testing.T) {
	t.Parallel()
	const web, db = "{configMap: {labelSelector: {matchLabels: {team: web}}}}", "{configMap: {labelSelector: {matchLabels: {team: db}}}}"
	for name, sources := range map[string]string{
		"a name and a selection": "[{configMap: {name: a}}, " + web + "]",
		"two selections":         "[" + web + ", " + db + "]",
	} {
		bubbleCase(t, name, func(n *node) {
			a, all := mapIn("default", "a"), api.Ref{Kind: api.ConfigMap, Namespace: "default"}
			n.set(a, "x", "1")
			n.label(a, 1, "")
			d, r := n.live(map[string]string{api.KeySources: sources})
			n.cluster.stabilize(a, release.Exposure{}, "x", "1")
			n.cluster.edit(a, "x", "1")
			pass(settling)
			wantSame(n, "users of the stable copy", 1, n.cluster.users()[release.StableOf(a)])
			n.fail(all, errors.New("it is not read for a while"))
			n.set(a, "x", "2")
			pass(settling)
			n.fail(all, nil)
			pass(settling)
			n.wantFiles(r, map[string]string{"x": "2"})
			wantSame(n, "users of the stable copy", 0, n.cluster.users()[release.StableOf(a)])
			d.unpublish(r)
			n.wantNoUsers()
		})
	}
}
