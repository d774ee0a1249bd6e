package driver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestABusyObjectThatNobodyMounts (fault 30): others in the namespace write to a ConfigMap all the time, as leaders do to
// hold their office. The driver hears nothing of it: no sync, no Event, and next to no byte that it reads.
func TestABusyObjectThatNobodyMounts(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	b.CreateConfigMap("leader", nil)
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	b.Publish(pod)
	const changes, size, quiet = 100, 10_000, 200_000
	lead := func() (syncs float64, read int) {
		syncs, read = syncsOf(b), readBy(b)
		for i := range changes {
			b.UpdateConfigMap("leader", map[string]string{"n": strconv.Itoa(i), "record": strings.Repeat("x", size)})
		}
		last := fmt.Sprintf("after %v syncs", syncs)
		b.UpdateConfigMap("web", map[string]string{"n": last}) // When this is there, the others would be.
		b.WantFile(pod, "n", last)
		return syncsOf(b) - syncs, readBy(b) - read
	}
	syncs, read := lead()
	if syncs > 5 || read > quiet {
		t.Errorf("%d changes of an object that nobody mounts: %v syncs, %d bytes read, want next to none", changes, syncs, read)
	}
	events, err := b.Cluster.Client().CoreV1().Events(b.Namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, e := range events.Items {
		if strings.Contains(e.Message, "leader") {
			t.Errorf("an Event reports it: %s", e.Message)
		}
	}
	t.Attr("storm/bytes-read-for-an-object-nobody-mounts", strconv.Itoa(read))

	// What is measured does show a change that is heard of.
	b.Publish(b.Pod("mounts", map[string]string{"configMap": "leader"}))
	if _, read := lead(); read < 2*quiet {
		t.Errorf("%d changes of an object that is mounted: %d bytes read, want more: the measure shows nothing", changes, read)
	}
}

// TestUnrelatedSecrets (fault 29) fills the namespace with large Secrets that the pod may read and does not mount. The
// driver's memory does not grow; it does for those that are mounted.
func TestUnrelatedSecrets(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP)) // The race detector takes memory of its own.
	b.AllowSecrets("default")
	b.SetSecret("web", map[string]string{"n": "0"})
	pod := b.Pod("web", map[string]string{"secret": "web"})
	b.Publish(pod)
	// settle has the driver do a few things of all sorts, so that what it holds is what it always holds.
	settle := func(from string) {
		for i := range 20 {
			b.SetSecret("web", map[string]string{"n": fmt.Sprint(from, i)})
			b.WantFile(pod, "n", fmt.Sprint(from, i))
		}
	}
	settle("before")
	before := rssOf(b)
	const size, bound, mounted = 1_000_000, 8 << 20, 24
	secrets := soak.Rounds(48, 1000)
	t.Cleanup(func() { deleteSecrets(b) })
	createSecrets(b, secrets, size)
	settle("after")
	grown := rssOf(b) - before
	t.Attr("memory/unrelated-secrets", strconv.Itoa(secrets))
	t.Attr("memory/rss-before-MiB", strconv.Itoa(before>>20))
	t.Attr("memory/rss-growth-KiB", strconv.Itoa(grown>>10))
	if grown > bound {
		t.Errorf("%d Secrets that nobody mounts made the driver grow by %d bytes", secrets, grown)
	}

	control := b.Pod("control", map[string]string{"secret": "large-0"})
	for i := 1; i < mounted; i++ {
		fixture.AddVolume(control, fmt.Sprintf("v%d", i), map[string]string{"secret": fmt.Sprintf("large-%d", i)})
	}
	b.Publish(control)
	grown = rssOf(b) - before
	t.Attr("memory/rss-growth-of-mounted-MiB", strconv.Itoa(grown>>20))
	if grown < 2*bound {
		t.Errorf("%d large Secrets that are mounted made the driver grow by %d bytes, want more: the measure shows nothing", mounted, grown)
	}
}
