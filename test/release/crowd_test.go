package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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
	expect.NoError(t, making.Wait())
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
	expect.Eventually(c.T, soon, func() error {
		if got := len(c.with(value)); got != want {
			return fmt.Errorf("%d pods have %s, want %d", got, value, want)
		}
		took = time.Since(since)
		return nil
	})
	return took
}

// fail has each pod that gets a value be no longer Ready two seconds after it has it, as a bad edit does, until ctx ends. It
// returns when the first of them is known to the API server; then more follow.
func (c *crowd) fail(ctx context.Context, wg *sync.WaitGroup, value string) (known time.Time) {
	c.T.Helper()
	first := make(chan time.Time, 1)
	wg.Go(func() {
		had := map[*member]bool{}
		for ctx.Err() == nil {
			for _, m := range c.with(value) {
				if had[m] {
					continue
				}
				had[m] = true
				wg.Go(func() {
					select {
					case <-time.After(2 * time.Second):
					case <-ctx.Done():
						return
					}
					if err := c.writeStatus(ctx, m.Name, corev1.ConditionFalse, 0); err == nil {
						select {
						case first <- time.Now():
						default:
						}
					}
				})
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	select {
	case known = <-first:
	case <-time.After(2 * soon):
		c.T.Fatalf("no pod fails by %s", value)
	}
	return known
}

// TestACrowd: of 500 pods on 20 nodes, a bad edit reaches 25, which fail 2 s later, and is taken back from all of them. No pod is
// replaced or restarted. A good edit reaches all. How long that takes is no verdict, as the machine may be busy: it is shown
// among the attributes of the test.
func TestACrowd(t *testing.T) {
	c := newCrowd(t, "{steps: [5%, 25%], pause: 4s}")
	c.edit("web", map[string]string{"a": "2"})
	e := c.wantState(release.Progressing, 1)
	t.Attr("crowd/exposure", c.await("2", 25, e.Since).String())
	ctx, stop := context.WithCancel(t.Context())
	var failing, watching sync.WaitGroup
	defer failing.Wait()
	defer stop()
	reached := map[*member]bool{}
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, m := range c.with("2") {
				reached[m] = true
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	known := c.fail(ctx, &failing, "2")
	e = c.wantState(release.Reverted, 1)
	t.Attr("crowd/decided", e.Since.Sub(known).String())
	t.Attr("crowd/reverted", c.await("2", 0, e.Since).String())
	stop()
	failing.Wait()
	watching.Wait()
	if got := len(reached); got != crowdPods/20 {
		t.Errorf("a bad edit has reached %d of %d pods, want 5%%", got, crowdPods)
	}
	if got := len(c.with("1")); got != crowdPods {
		t.Errorf("%d pods have the stable content, want all", got)
	}
	c.wantNoRestart()
	for m := range reached {
		expect.NoError(t, c.writeStatus(t.Context(), m.Name, corev1.ConditionTrue, 0))
	}

	c.edit("web", map[string]string{"a": "3"})
	for step, want := range []int{25, 125} {
		e = c.wantState(release.Progressing, step+1)
		t.Attr(fmt.Sprintf("crowd/step-%d", step+1), c.await("3", want, e.Since).String())
	}
	c.wantState("", 0)
	t.Attr("crowd/promoted", c.await("3", crowdPods, time.Now()).String())
}

// wantNoRestart checks that the pods are those that there were, and that nobody has evicted one or restarted a container.
func (c *crowd) wantNoRestart() {
	c.T.Helper()
	pods, err := c.Cluster.Client().CoreV1().Pods(c.Namespace).List(c.T.Context(), metav1.ListOptions{})
	expect.NoError(c.T, err)
	uids := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		uids[pod.UID] = true
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 || pod.DeletionTimestamp != nil {
				c.T.Errorf("pod %s has %d restarts, or is being deleted", pod.Name, status.RestartCount)
			}
		}
	}
	for _, m := range c.pods {
		if !uids[m.UID] {
			c.T.Errorf("pod %s is gone", m.Name)
		}
	}
}
