package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// crowd is many pods on several nodes.
type crowd struct {
	*site

	nodes []*node.Node
	pods  []*member
}

// member is one pod of a crowd.
type member struct {
	*corev1.Pod

	at   *node.Node
	file string
}

// has reports whether the file of a pod has a value.
func (m *member) has(value string) bool {
	text, err := os.ReadFile(m.file)
	return err == nil && string(text) == value
}

const (
	crowdNodes = 20
	crowdPods  = 500
)

// newCrowd returns pods that have the ConfigMap «web», spread over nodes, each with a driver process.
func newCrowd(t *testing.T, annotation string) *crowd {
	t.Helper()
	c := &crowd{site: newSite(t)}
	c.create("web", annotation, map[string]string{"a": "1"})
	for range crowdNodes {
		n := environment.NodeAsShipped(t)
		n.UseTokens(c.Cluster.PodToken)
		c.nodes = append(c.nodes, n)
	}
	c.pods = make([]*member, crowdPods)
	var making errgroup.Group
	const atOnce = 20
	making.SetLimit(atOnce)
	for i := range c.pods {
		making.Go(func() error { return c.add(t.Context(), i) })
	}
	must(t, making.Wait())
	t.Cleanup(c.clear)
	return c
}

// add makes a pod that is ready.
func (c *crowd) add(ctx context.Context, i int) error {
	pods := c.Cluster.Client().CoreV1().Pods(c.Namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + strconv.Itoa(i)},
		Spec:       corev1.PodSpec{ServiceAccountName: "default", NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	kit.AddVolume(pod, kit.VolumeName, web)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	at := c.nodes[i%crowdNodes]
	c.pods[i] = &member{Pod: pod, at: at, file: filepath.Join(at.Target(pod, kit.VolumeName), "a")}
	if err := c.writeStatus(ctx, pod.Name, corev1.ConditionTrue, 0); err != nil {
		return err
	}
	return at.PublishAll(ctx, pod)
}

func (c *crowd) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, m := range c.pods {
		if m == nil {
			continue
		}
		if err := m.at.UnpublishAll(ctx, m.Pod); err != nil {
			c.T.Error(err)
		}
	}
}

// with returns the pods that have a value.
func (c *crowd) with(value string) []*member {
	return slices.DeleteFunc(slices.Clone(c.pods), func(m *member) bool { return !m.has(environment.Marked(value)) })
}

// await waits until so many pods have a value, and returns how long that took since a time.
func (c *crowd) await(value string, want int, since time.Time) time.Duration {
	c.T.Helper()
	var took time.Duration
	environment.Eventually(c.T, soon, func() error {
		if got := len(c.with(value)); got != want {
			return fmt.Errorf("%d pods have %s, want %d", got, value, want)
		}
		took = time.Since(since)
		return nil
	})
	return took
}

// TestACrowd: of 500 pods on 20 nodes, a bad edit reaches 25 and is taken back when the first of them is no longer Ready. A
// good edit reaches all. How long that takes is measured, and shown among the attributes of the test.
func TestACrowd(t *testing.T) {
	c := newCrowd(t, "{steps: [5%, 25%], pause: 4s}")
	c.edit("web", map[string]string{"a": "2"})
	e := c.wantState(release.Progressing, 1)
	t.Attr("crowd/exposure", c.await("2", 25, e.Since).String())
	exposed := c.with("2")
	<-time.After(2 * time.Second)
	if got := len(c.with("2")); got != 25 {
		t.Errorf("%d of %d pods have an edit that was shown to 5%%", got, crowdPods)
	}
	must(t, c.writeStatus(t.Context(), exposed[0].Name, corev1.ConditionFalse, 0))
	known := time.Now()
	e = c.wantState(release.Reverted, 1)
	t.Attr("crowd/decided", e.Since.Sub(known).String())
	t.Attr("crowd/reverted", c.await("2", 0, e.Since).String())
	if got := len(c.with("1")); got != crowdPods {
		t.Errorf("%d pods have the stable content, want all", got)
	}
	for _, m := range exposed {
		must(t, c.writeStatus(t.Context(), m.Name, corev1.ConditionTrue, 0))
	}

	c.edit("web", map[string]string{"a": "3"})
	for step, want := range []int{25, 125} {
		e = c.wantState(release.Progressing, step+1)
		t.Attr(fmt.Sprintf("crowd/step-%d", step+1), c.await("3", want, e.Since).String())
	}
	c.wantState("", 0)
	t.Attr("crowd/promoted", c.await("3", crowdPods, time.Now()).String())
}
