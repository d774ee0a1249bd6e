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

// Series, beside that of the bare watch. Those of edits after which the pods are annotated end in bumped.
const (
	ours   = "ours"
	inTree = "in-tree"
	bumped = "-bumped"
)

// both measures pods that have two volumes of a separate ConfigMap: the driver's and the kubelet's.
type both struct {
	*bench
	samples

	cfg   KubeletConfig
	floor *floor
	runs  [][]*bothPod // Each has separate pods, since it begins while the kubelet has those of the one before to look after.
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
	if err := b.cfg.Site.CreateNamespace(ctx, bothNamespace); err != nil {
		return err
	}
	if b.floor, err = newFloor(ctx, b.client, bothNamespace, ""); err != nil {
		return err
	}
	b.runs = make([][]*bothPod, b.cfg.Runs)
	var all []*bothPod
	for i := range b.cfg.Pods * b.cfg.Runs {
		p := &bothPod{writer: &writer{client: b.client, namespace: bothNamespace, name: fmt.Sprintf("own-%d", i)}}
		if err := p.create(ctx, payloads()[0].size); err != nil {
			return err
		}
		p.pod = site.PodWithBoth(bothNamespace, p.name, p.name)
		b.runs[i%b.cfg.Runs] = append(b.runs[i%b.cfg.Runs], p)
		all = append(all, p)
	}
	return b.startPods(ctx, all)
}

func (b *both) startPods(ctx context.Context, all []*bothPod) error {
	pods := make([]*corev1.Pod, 0, len(all))
	for _, p := range all {
		pods = append(pods, p.pod)
	}
	begin := time.Now()
	pods, err := b.cfg.Site.StartPods(ctx, pods)
	if err != nil {
		return err
	}
	b.cfg.Site.Say("%d pods with both kinds of volumes run after %s", len(pods), time.Since(begin).Round(time.Millisecond))
	for i, p := range all {
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

// measure makes the edits of one run after the other. What only waits for the kubelet goes on meanwhile, and is no one's turn.
func (b *both) measure(ctx context.Context) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, key := range []string{bareWatch, ours, inTree, ours + bumped, inTree + bumped} {
		b.samples[key] = make([][]int64, b.cfg.Runs)
	}
	waiting, waitingCtx := errgroup.WithContext(ctx)
	for run := range b.runs {
		var left []*pending
		err := b.cfg.Turn.Do(waitingCtx, func(ctx context.Context) (err error) {
			if err := b.bumpAll(ctx, run); err != nil {
				return fmt.Errorf("edit ConfigMaps and annotate their pods: %w", err)
			}
			left, err = b.leaveAll(ctx, b.runs[run])
			return err
		})
		if err != nil {
			waiting.Go(func() error { return err })
			break
		}
		waiting.Go(func() error { return b.await(waitingCtx, run, left) })
	}
	if err := waiting.Wait(); err != nil {
		return err
	}
	return b.cfg.Turn.Do(ctx, func(ctx context.Context) error {
		return b.cfg.Site.DropPods(ctx, bothNamespace) // They would be in the way of what is measured next.
	})
}

// pending is an edit that the driver's volume has, and the kubelet's will have.
type pending struct {
	pod                   *bothPod
	sent                  time.Time
	seen                  <-chan sighting
	watched, ours, inTree time.Duration // How long it took to be where.
}

// edit makes one edit, does what is to be done after it, and waits until the driver's volume has it.
func (b *both) edit(ctx context.Context, p *bothPod, then func(context.Context, *bothPod) error) (*pending, error) {
	next := p.next(payloads()[0].size)
	watched := b.floor.expect(p.name, p.version)
	ours := b.eyes.expect(p.ours, p.version)
	e := &pending{pod: p, seen: b.eyes.expect(p.inTree, p.version), sent: time.Now()}
	if err := p.send(ctx, next); err != nil {
		return nil, err
	}
	if err := then(ctx, p); err != nil {
		return nil, err
	}
	if err := e.receive(ctx, watched, &e.watched, patience); err != nil {
		return nil, err
	}
	return e, e.receive(ctx, ours, &e.ours, patience)
}

func (e *pending) receive(ctx context.Context, seen <-chan sighting, took *time.Duration, within time.Duration) error {
	at, err := receive(ctx, seen, within)
	if err != nil {
		return fmt.Errorf("pod %s: %w", e.pod.pod.Name, err)
	}
	*took = at.Sub(e.sent)
	return nil
}

// complete waits until the kubelet's volume has the edit.
func (e *pending) complete(ctx context.Context) error {
	return e.receive(ctx, e.seen, &e.inTree, kubeletPatience)
}

// bumpAll edits ConfigMaps, one after the other, and then annotates their pods, which makes the kubelet look after them.
func (b *both) bumpAll(ctx context.Context, run int) error {
	pods := b.runs[run]
	for i := range b.cfg.Bumped {
		e, err := b.edit(ctx, pods[i%len(pods)], b.bump)
		if err != nil {
			return err
		}
		if err := e.complete(ctx); err != nil {
			return err
		}
		b.add(run, ours+bumped, e.ours)
		b.add(run, inTree+bumped, e.inTree)
		if err := site.Rest(ctx, settle); err != nil {
			return err
		}
	}
	return nil
}

// add adds to a run, which nobody else does at the same time.
func (b *both) add(run int, key string, took time.Duration) {
	b.samples[key][run] = append(b.samples[key][run], took.Nanoseconds())
}

func (b *both) bump(ctx context.Context, p *bothPod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/version":"%d"}}}`, p.version)
	_, err := b.client.CoreV1().Pods(bothNamespace).Patch(ctx, p.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// leaveAll edits each ConfigMap at a separate moment and leaves the rest to the kubelet.
func (b *both) leaveAll(ctx context.Context, pods []*bothPod) ([]*pending, error) {
	all := make([]*pending, len(pods))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range pods {
		group.Go(func() (err error) {
			if err := site.Rest(ctx, rand.N(b.cfg.Spread)); err != nil { //nolint:gosec // No secret.
				return err
			}
			all[i], err = b.edit(ctx, p, leave)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("edit ConfigMaps: %w", err)
	}
	return all, nil
}

func leave(context.Context, *bothPod) error { return nil }

// await waits until the kubelet has done all of a run.
func (b *both) await(ctx context.Context, run int, left []*pending) error {
	for _, e := range left {
		if err := e.complete(ctx); err != nil {
			return fmt.Errorf("wait for the kubelet: %w", err)
		}
		b.add(run, bareWatch, e.watched)
		b.add(run, ours, e.ours)
		b.add(run, inTree, e.inTree)
	}
	b.cfg.Site.Say("the kubelet has the edits of run %d of %d", run+1, b.cfg.Runs)
	return nil
}

func (b *both) results() (report.Group, report.Target) {
	ofOurs, ofInTree := b.series(ours, "liveconfig"), b.series(inTree, "the kubelet's configMap volume")
	group := report.Group{
		Key: "in-tree", Title: "Volumes of both kinds in one pod, ConfigMaps of 1 KiB", Floor: bareWatch,
		Series: []report.Series{
			b.series(bareWatch, "bare watch (floor)"), ofOurs, ofInTree,
			b.series(ours+bumped, "liveconfig, same edits as below"),
			b.series(inTree+bumped, "the kubelet's, pod annotated after the edit"),
		},
	}
	return group, report.Target{
		Key: "update-in-tree", What: "update: the kubelet's configMap volume to liveconfig, p50", Value: ofInTree.Ratio(ofOurs, 50), Bound: 1000, AtLeast: true,
	}
}
