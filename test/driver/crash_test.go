package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// crashCase is which volumes a driver has that is killed.
type crashCase struct {
	policy  string
	volumes int // Equal ones.
	args    []string
}

// crashCases are those of the tests of updates. Equal volumes share their files, unless a flag or the policy
// forbids it.
var crashCases = map[string]crashCase{
	"Atomic":       {policy: "Atomic", volumes: 2},
	"Atomic-alone": {policy: "Atomic", volumes: 1, args: []string{"--share-volumes=false"}},
	"Replace":      {policy: "Replace", volumes: 2},
	"InPlace":      {policy: "InPlace", volumes: 1},
}

// promises are what the files of a volume are at any time, by update policy.
var promises = map[string]func(t testing.TB, volume string, first, last int, when string){
	"Atomic": wantWhole, "Replace": wantEachFileWhole, "InPlace": wantNoFileEmpty,
}

// lanes returns how many drivers share the steps of a test. With the policy Atomic a driver mostly waits: after each restart,
// for the grace of replaced files.
func lanes(policy string) int {
	if policy == "Atomic" {
		return 4
	}
	return 1
}

// eachStep calls dies for each step: the driver is killed before the first change, before the second change, and so on. The
// steps are dealt out to lanes with a driver each. A lane ends when its driver survives, because there are no more changes.
func eachStep(t *testing.T, lanes, least int, name string, lane func(t *testing.T) (dies func(n int) bool)) {
	t.Helper()
	var steps atomic.Int64
	t.Cleanup(func() {
		t.Attr("kills/"+name, fmt.Sprint(steps.Load()))
		if got := int(steps.Load()); got < least && !t.Failed() {
			t.Errorf("the driver was killed at %d steps, want at least %d", got, least)
		}
	})
	for first := 1; first <= lanes; first++ {
		t.Run(fmt.Sprintf("from step %d by %d", first, lanes), func(t *testing.T) {
			t.Parallel()
			dies := lane(t)
			for n := first; dies(n); n += lanes {
				steps.Add(1)
			}
		})
	}
}

// TestKilledAtEachStepOfAnUpdate (rules 39 to 44) kills the driver before the first change of an update, before the
// second one, and so on. These are faults 1 and 4.
func TestKilledAtEachStepOfAnUpdate(t *testing.T) {
	t.Parallel()
	for name, tt := range crashCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStep(t, lanes(tt.policy), 8, "update/"+name, func(t *testing.T) func(n int) bool {
				t.Helper()
				b := newCrashBench(t, tt.args...)
				pods := b.replicas(tt.volumes, tt.policy)
				return func(n int) bool {
					if !b.updateDies(n, pods...) {
						b.wantClean("in the end", pods...)
						return false
					}
					when := fmt.Sprintf("killed before change %d of an update", n)
					for _, pod := range pods {
						promises[tt.policy](t, b.Path(pod, "."), b.version-1, b.version, when)
					}
					b.restart()
					b.wantClean(when, pods...)
					return true
				}
			})
		})
	}
}

// updateDies edits the source and reports whether the driver was killed before change n of the update. It was not if
// there are fewer. One sync writes the files of the pods.
func (b *crashBench) updateDies(n int, pods ...*corev1.Pod) bool {
	b.T.Helper()
	written := b.syncs("written")
	tripped := b.wire.Arm(n)
	b.edit()
	for {
		select {
		case <-tripped:
			return true
		case <-time.After(10 * time.Millisecond):
		}
		if b.areCurrent(pods...) != nil {
			continue
		}
		// All is as it should be; but is it the update's last change?
		select {
		case <-tripped:
			return true
		default:
		}
		if now := b.syncs("written"); now != "" && now != written {
			b.wire.Disarm()
			return false
		}
	}
}

// TestKilledAtEachStepOfAPublish: the kubelet tries again, or gives up and unpublishes. This is fault 15.
func TestKilledAtEachStepOfAPublish(t *testing.T) {
	t.Parallel()
	for then, follow := range map[string]func(b *crashBench, pod *corev1.Pod, when string){
		"publish": func(b *crashBench, pod *corev1.Pod, when string) {
			if err := b.TryPublish(b.T.Context(), pod); err != nil {
				b.T.Errorf("%s: publish again: %v", when, err)
			}
			b.wantClean(when, pod)
			b.Unpublish(pod)
		},
		"unpublish": func(b *crashBench, pod *corev1.Pod, _ string) { b.Unpublish(pod) },
	} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			b := newCrashBench(t)
			steps := 0
			for n := 1; ; n++ {
				pod := b.Pod("web", map[string]string{"configMap": "web"})
				when := fmt.Sprintf("killed before change %d of a publish", n)
				if !b.dies(n, func(ctx context.Context) error { return b.TryPublish(ctx, pod) }) {
					b.Unpublish(pod)
					break
				}
				steps = n
				if mounts := environment.Mounts(t, b.Node.KubeletDir()); len(mounts) > 0 {
					wantWhole(t, b.Path(pod, "."), 0, 0, when)
				}
				b.restart()
				follow(b, pod, when)
				b.wantNone(pod, when)
			}
			t.Attr("kills/publish/"+then, fmt.Sprint(steps))
			if steps < 8 {
				t.Errorf("the driver was killed at %d steps of a publish, want at least 8", steps)
			}
		})
	}
}

// TestKilledAtEachStepOfAnUnpublish is fault 13.
func TestKilledAtEachStepOfAnUnpublish(t *testing.T) {
	t.Parallel()
	b := newCrashBench(t)
	steps := 0
	for n := 1; ; n++ {
		pod := b.Pod("web", map[string]string{"configMap": "web"})
		must(t, b.TryPublish(t.Context(), pod))
		when := fmt.Sprintf("killed before change %d of an unpublish", n)
		died := b.dies(n, func(ctx context.Context) error { return b.Node.UnpublishAll(ctx, pod) })
		if died {
			steps = n
			b.restart()
			b.Unpublish(pod)
		}
		b.wantNone(pod, when)
		if !died {
			break
		}
	}
	t.Attr("kills/unpublish", fmt.Sprint(steps))
	if steps < 3 {
		t.Errorf("the driver was killed at %d steps of an unpublish, want at least 3", steps)
	}
}

// TestKilledWhileVolumesShare (faults 13 and 15) kills the driver at each step of a publish of a volume
// that shares the files of a live one, and of its unpublish. The live one stays whole, follows its source
// afterwards, and nothing is left of the other.
func TestKilledWhileVolumesShare(t *testing.T) {
	t.Parallel()
	b := newCrashBench(t)
	live := b.Pod("live", map[string]string{"configMap": "web"})
	b.Publish(live)
	for name, call := range map[string]func(ctx context.Context, pod *corev1.Pod) error{
		"publish":   func(ctx context.Context, pod *corev1.Pod) error { return b.TryPublish(ctx, pod) },
		"unpublish": func(ctx context.Context, pod *corev1.Pod) error { return b.Node.UnpublishAll(ctx, pod) },
	} {
		steps := 0
		for n := 1; ; n++ {
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			if name == "unpublish" {
				b.Publish(pod)
			}
			died := b.dies(n, func(ctx context.Context) error { return call(ctx, pod) })
			when := fmt.Sprintf("killed before change %d of a shared %s", n, name)
			wantWhole(t, b.Path(live, "."), b.version, b.version, when)
			if died {
				steps = n
				b.restart()
			}
			b.edit()
			b.Unpublish(pod)
			b.wantClean(when, live)
			if !died {
				break
			}
		}
		t.Attr("kills/shared-"+name, fmt.Sprint(steps))
		if steps < 3 {
			t.Errorf("the driver was killed at %d steps of a shared %s, want at least 3", steps, name)
		}
	}
}

// dies makes the call and reports whether the driver was killed before its change n.
func (b *crashBench) dies(n int, call func(context.Context) error) bool {
	b.T.Helper()
	tripped := b.wire.Arm(n)
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute) // It may have been killed before it could take the call.
	defer cancel()
	err := call(ctx)
	select {
	case <-tripped:
		return true
	default:
	}
	b.wire.Disarm()
	must(b.T, err)
	return false
}

// TestKilledAtEachStepOfARecovery kills the driver in the middle of an update of volumes that share their files, and
// then again and again while it starts and puts right what the first one left. These are faults 1 and 19.
func TestKilledAtEachStepOfARecovery(t *testing.T) {
	t.Parallel()
	eachStep(t, lanes("Atomic"), 10, "recovery", func(t *testing.T) func(n int) bool {
		t.Helper()
		b := newCrashBench(t)
		pods := b.replicas(2, "Atomic")
		return func(n int) bool {
			if !b.updateDies(9, pods...) {
				t.Fatal("an update has fewer than 9 changes")
			}
			b.Kill()
			tripped := b.wire.Arm(n)
			if !b.recoveryDies(tripped, pods...) {
				b.wire.Disarm()
				b.wantClean("in the end", pods...)
				return false
			}
			when := fmt.Sprintf("killed before change %d of a recovery", n)
			for _, pod := range pods {
				wantWhole(t, b.Path(pod, "."), b.version-1, b.version, when)
			}
			b.restart()
			b.wantClean(when, pods...)
			return true
		}
	})
}

func (b *crashBench) recoveryDies(tripped <-chan struct{}, pods ...*corev1.Pod) bool {
	b.T.Helper()
	if err := b.Node.StartDriver(b.T.Context()); err != nil {
		select {
		case <-tripped: // Nothing else may keep it from starting.
		case <-time.After(soon):
			b.T.Fatal(err)
		}
		return true
	}
	for {
		select {
		case <-tripped:
			return true
		case <-time.After(10 * time.Millisecond):
		}
		if b.areCurrent(pods...) == nil && b.hasSynced() {
			return false
		}
	}
}

// TestKilledAtRandom kills a driver that is updating as fast as the API server takes edits. This is fault 19.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	rounds := soak.Rounds(20, 167) // Of each case.
	for name, tt := range crashCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCrashBench(t, tt.args...)
			pods := b.replicas(2, tt.policy)
			for i := range rounds {
				before := b.version
				edited := time.Now()
				for time.Since(edited) < time.Duration(i*7%40)*time.Millisecond {
					b.edit()
				}
				b.Kill()
				when := fmt.Sprintf("round %d", i)
				for _, pod := range pods {
					if tt.policy != "Replace" { // A file of it may be of any version in between.
						promises[tt.policy](t, b.Path(pod, "."), before, b.version, when)
					}
				}
				b.restart()
				b.wantClean(when, pods...)
			}
			t.Attr("kills/random/"+name, fmt.Sprint(rounds))
		})
	}
}
