package rollout

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// How soon the controller looks at the pods of a StatefulSet that has a new template and pods that
// are not ready, and how soon again. A look is one request. Most rollouts are never looked at: all
// their pods are ready again within that time.
const (
	firstLook = 10 * time.Second
	nextLook  = time.Minute
)

// blockedLooks are the StatefulSets whose pods the controller looks at.
type blockedLooks struct {
	mu   sync.Mutex // Guards next.
	next map[workload.Ref]look
}

// look is when the pods are looked at next, and what was reported about them.
type look struct {
	target   string
	at       time.Time
	reported string
}

func newBlockedLooks() *blockedLooks { return &blockedLooks{next: map[workload.Ref]look{}} }

// wait returns how long to wait before the next look. Zero begins the wait for the one after it.
func (b *blockedLooks) wait(w workload.Workload, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.next[w.Ref]
	if !known || last.target != w.Ordered.Target {
		last = look{target: w.Ordered.Target, at: now.Add(firstLook)}
	}
	wait := max(0, last.at.Sub(now))
	if wait == 0 {
		last.at = now.Add(nextLook)
	}
	b.next[w.Ref] = last
	return wait
}

// isNews records a text about a workload, and reports whether it is another than the last one.
func (b *blockedLooks) isNews(ref workload.Ref, text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.next[ref]
	isNews := known && text != last.reported
	if last.reported = text; known {
		b.next[ref] = last
	}
	return isNews && text != ""
}

func (b *blockedLooks) forget(ref workload.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.next, ref)
}

// reportBlocked reports the pods that the rollout of a StatefulSet waits for until somebody deletes
// them.
func (c *Controller) reportBlocked(ctx context.Context, h *cachedWorkload) {
	if !c.cfg.Pods || c.cfg.DryRun || !h.is.MayBlock() {
		c.blocked.forget(h.is.Ref)
		return
	}
	if wait := c.blocked.wait(h.is, time.Now()); wait > 0 {
		c.workloads.AddAfter(h.is.Ref, wait)
		return
	}
	c.workloads.AddAfter(h.is.Ref, nextLook)
	logger := klog.FromContext(ctx).WithValues(logkeys.Workload, h.is.String(), logkeys.Namespace, h.Namespace)
	pods, err := c.blockingPods(ctx, h)
	if err != nil {
		logger.Error(err, "Could not see whether pods block a rollout")
		return
	}
	text := ""
	if len(pods) > 0 {
		text = "The rollout waits: " + state.ByPods(h.is.Ref, pods)
	}
	if c.blocked.isNews(h.is.Ref, text) {
		c.event(h, notice{corev1.EventTypeWarning, ReasonBlocked, text})
		logger.Info("Pods block a rollout", logkeys.Reason, text)
	}
}

func (c *Controller) blockingPods(ctx context.Context, h *cachedWorkload) ([]string, error) {
	if !c.requests.Take(h.Namespace) {
		return nil, nil // The next look may have more luck.
	}
	selector, err := metav1.LabelSelectorAsSelector(h.is.Ordered.Selector)
	if err != nil {
		return nil, err
	}
	list, err := c.cfg.Client.CoreV1().Pods(h.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return h.is.Blocking(h.is.Ordered.Target, pods, time.Now()), nil
}
