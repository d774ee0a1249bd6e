package update

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

const bothNamespace = "bench-both"

// kubeletPatience is more than the kubelet takes to look after all of its pods.
const kubeletPatience = 4 * time.Minute

// both measures pods that have two volumes of a ConfigMap of their own: the driver's and the kubelet's.
type both struct {
	*bench

	cfg   KubeletConfig
	floor *floor
	pods  []*bothPod
	// By run.
	watched, ours, inTree                   [][]int64
	watchedBumped, oursBumped, inTreeBumped [][]int64
}

// bothPod is one of the pods.
type bothPod struct {
	*writer

	pod          *corev1.Pod
	ours, inTree *volume
}

func (b *both) close() {
	if b.floor != nil {
		b.floor.close()
	}
}

func (b *both) start(ctx context.Context) (err error) {
	if err := b.cfg.Site.Namespace(ctx, bothNamespace); err != nil {
		return err
	}
	if b.floor, err = newFloor(ctx, b.client, bothNamespace, ""); err != nil {
		return err
	}
	pods := make([]*corev1.Pod, 0, b.cfg.Pods)
	for i := range b.cfg.Pods {
		p := &bothPod{writer: &writer{client: b.client, namespace: bothNamespace, name: fmt.Sprintf("own-%d", i)}}
		if err := p.create(ctx, payloads()[0].size); err != nil {
			return err
		}
		b.pods = append(b.pods, p)
		pods = append(pods, site.PodWithBoth(bothNamespace, p.name, p.name))
	}
	if pods, err = b.cfg.Site.StartPods(ctx, pods); err != nil {
		return err
	}
	for i, p := range b.pods {
		p.pod = pods[i]
		if p.ours, err = b.eyes.watch(b.cfg.Site.OursDir(p.pod)); err != nil {
			return err
		}
		if p.inTree, err = b.eyes.watch(b.cfg.Site.InTreeDir(p.pod)); err != nil {
			return err
		}
	}
	return nil
}

func (b *both) measure(ctx context.Context) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	for range b.cfg.Runs {
		if err := b.bumpAll(ctx); err != nil {
			return fmt.Errorf("edit ConfigMaps and annotate their pods: %w", err)
		}
		if err := b.leaveAll(ctx); err != nil {
			return fmt.Errorf("edit ConfigMaps and wait for the kubelet: %w", err)
		}
	}
	return b.cfg.Site.DropPods(ctx, bothNamespace) // They would be in the way of what is measured next.
}

// outcome is how long an edit took to be where.
type outcome struct{ watched, ours, inTree time.Duration }

// edit makes one edit, does what is to be done after it, and waits until it is everywhere.
func (b *both) edit(ctx context.Context, p *bothPod, then func(context.Context, *bothPod) error) (outcome, error) {
	next := p.next(payloads()[0].size)
	watched := b.floor.expect(p.name, p.version)
	ours, inTree := b.eyes.expect(p.ours, p.version), b.eyes.expect(p.inTree, p.version)
	sent := time.Now()
	if err := p.send(ctx, next); err != nil {
		return outcome{}, err
	}
	if err := then(ctx, p); err != nil {
		return outcome{}, err
	}
	var o outcome
	for _, w := range []struct {
		seen <-chan sighting
		took *time.Duration
	}{{watched, &o.watched}, {ours, &o.ours}, {inTree, &o.inTree}} {
		at, err := receive(ctx, w.seen, kubeletPatience)
		if err != nil {
			return outcome{}, fmt.Errorf("pod %s: %w", p.pod.Name, err)
		}
		*w.took = at.Sub(sent)
	}
	return o, nil
}

// bumpAll edits ConfigMaps, one after the other, and then annotates their pods, which makes the kubelet look after them.
func (b *both) bumpAll(ctx context.Context) error {
	var all []outcome
	for i := range b.cfg.Bumped {
		o, err := b.edit(ctx, b.pods[i%len(b.pods)], b.bump)
		if err != nil {
			return err
		}
		all = append(all, o)
		if err := site.Rest(ctx, settle); err != nil {
			return err
		}
	}
	addRun(all, &b.watchedBumped, &b.oursBumped, &b.inTreeBumped)
	return nil
}

// bump changes an annotation of the pod.
func (b *both) bump(ctx context.Context, p *bothPod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/version":"%d"}}}`, p.version)
	_, err := b.client.CoreV1().Pods(bothNamespace).Patch(ctx, p.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// leaveAll edits each ConfigMap at a moment of its own and leaves the rest to the kubelet.
func (b *both) leaveAll(ctx context.Context) error {
	all := make([]outcome, len(b.pods))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range b.pods {
		group.Go(func() (err error) {
			if err := site.Rest(ctx, rand.N(b.cfg.Spread)); err != nil { //nolint:gosec // No secret.
				return err
			}
			all[i], err = b.edit(ctx, p, leave)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	addRun(all, &b.watched, &b.ours, &b.inTree)
	return nil
}

func leave(context.Context, *bothPod) error { return nil }

// addRun adds the outcomes of one run.
func addRun(all []outcome, watched, ours, inTree *[][]int64) {
	var w, o, i []int64
	for _, one := range all {
		w, o, i = append(w, one.watched.Nanoseconds()), append(o, one.ours.Nanoseconds()), append(i, one.inTree.Nanoseconds())
	}
	*watched, *ours, *inTree = append(*watched, w), append(*ours, o), append(*inTree, i)
}

func (b *both) results() (report.Group, report.Target) {
	series := func(key, name string, runs [][]int64) report.Series {
		return report.Series{Key: key, Name: name, Unit: report.Nanoseconds, Runs: runs}
	}
	ours, inTree := series("ours", "liveconfig", b.ours), series("in-tree", "the kubelet's configMap volume", b.inTree)
	group := report.Group{
		Key: "in-tree", Title: "Volumes of both kinds in one pod, ConfigMaps of 1 KiB", Floor: "floor",
		Series: []report.Series{
			series("floor", "bare watch (floor)", b.watched), ours, inTree,
			series("ours-bumped", "liveconfig, same edits as below", b.oursBumped),
			series("in-tree-bumped", "the kubelet's, pod annotated after the edit", b.inTreeBumped),
		},
	}
	return group, report.Target{
		What: "update: the kubelet's configMap volume to liveconfig, p50", Value: inTree.Ratio(ours, 50), Bound: 1000, AtLeast: true,
	}
}
