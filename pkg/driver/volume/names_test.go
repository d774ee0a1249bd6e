package volume_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestASamePodAgain (fault 17): a StatefulSet makes a pod of the same name while the volumes of the one before are still there,
// with other contents. Each has its own files, and neither the end of the old one nor a restart of the driver touches the new
// one's.
func TestASamePodAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		d := n.start()
		before, after := n.replica("first", configMap("web")), n.replica("second", secret(tls))
		after.Pod.Name = before.Pod.Name
		d.publish(before)
		d.publish(after)
		n.wantFiles(before, map[string]string{"a": "1"})
		n.wantFiles(after, map[string]string{"key": "k1"})
		d.stop()
		n.cluster.set(tls, "key", "k2")
		d = n.start()
		pass(settling)
		d.unpublish(before)
		n.wantFiles(before, nil)
		n.wantFiles(after, map[string]string{"key": "k2"})
		wantSame(n, "users of sources", map[api.Ref]int{tls: 1}, n.cluster.users())
		n.set(tls, "key", "k3")
		n.wantFiles(after, map[string]string{"key": "k3"})
	})
}

// TestAStaticPodAgain (fault 17): a static pod has the same UID each time, and so the same volume ID and the same target,
// whatever its volumes are now. What the last one had is not seen again.
func TestAStaticPodAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		d := n.start()
		r := n.request("config", nil)
		for range 3 {
			r.Attributes = configMap("web")
			d.publish(r)
			n.wantFiles(r, map[string]string{"a": "1"})
			wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
			d.unpublish(r)
			n.wantNothing(d)
			r.Attributes = secret(tls)
			d.publish(r)
			n.wantFiles(r, map[string]string{"key": "k1"})
			wantSame(n, "users of sources", map[api.Ref]int{tls: 1}, n.cluster.users())
			d.unpublish(r)
			n.wantNothing(d)
		}
	})
}

// TestPathsAsUsersWriteThem shows rules 24 to 26 in a mounted volume: the longest path and element, characters of every kind,
// two dots where they are legal, and paths that are cleaned.
func TestPathsAsUsersWriteThem(t *testing.T) {
	bubble(t, func(n *node) {
		deep := strings.Repeat(strings.Repeat("x", 255)+"/", 15) + strings.Repeat("y", 127) + "/" + strings.Repeat("z", 128)
		if len(deep) != 4096 {
			n.Fatalf("the long path has %d bytes, want 4096", len(deep))
		}
		clean := map[string]string{"foo//bar": "foo/bar", "./x": "x", "y/": "y", "z/.": "z"}
		for _, p := range []string{deep, strings.Repeat("é", 127), "a/..b", "b/...", "p..", "c/..data", `q"uo'te\ d`, "ü/日本"} {
			clean[p] = p
		}
		var items []string
		for p := range clean {
			items = append(items, fmt.Sprintf(`{"key": "a", "path": %q}`, p))
		}
		n.cluster.set(web, "a", "1")
		_, r := n.live(configMap("web", api.KeyItems, "["+strings.Join(items, ", ")+"]"))
		for _, value := range []string{"1", "2"} {
			n.set(web, "a", value)
			root, err := os.OpenRoot(r.TargetPath)
			n.must(err)
			for written, p := range clean {
				if got, err := root.ReadFile(p); string(got) != value || err != nil {
					n.Errorf("%q is %q, %v, want %q", written, got, err, value)
				}
			}
			n.must(root.Close())
		}
	})
}
