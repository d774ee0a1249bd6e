package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
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

// steps are those of what a driver does. It is killed before the first change, before the second change, and so on.
type steps struct {
	name  string
	lanes int // Drivers that the steps are dealt out to. With the policy Atomic a driver mostly waits, for the grace of replaced files.
	least int
	crashCase
}

// each calls dies for each step. A lane ends when its driver survives, because there are no more changes.
func (s steps) each(t *testing.T, dies func(b *crashBench, n int) bool) {
	t.Helper()
	var killed atomic.Int64
	t.Cleanup(func() {
		t.Attr("kills/"+s.name, fmt.Sprint(killed.Load()))
		if got := int(killed.Load()); got < s.least && !t.Failed() {
			t.Errorf("the driver was killed at %d steps, want at least %d", got, s.least)
		}
	})
	for first := 1; first <= s.lanes; first++ {
		t.Run(fmt.Sprintf("from step %d by %d", first, s.lanes), func(t *testing.T) {
			t.Parallel()
			b := newCrashBench(t, s.args...)
			b.pods = b.replicas(s.volumes, s.policy)
			for n := first; dies(b, n); n += s.lanes {
				killed.Add(1)
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
			lanes := map[string]int{"Atomic": 4, "Replace": 1, "InPlace": 1}[tt.policy]
			steps{name: "update/" + name, lanes: lanes, least: 8, crashCase: tt}.each(t, func(b *crashBench, n int) bool {
				if !b.updateDies(n) {
					b.wantClean("in the end", b.pods...)
					return false
				}
				when := fmt.Sprintf("killed before change %d of an update", n)
				b.wantPromised(tt.policy, when)
				b.restart()
				b.wantClean(when, b.pods...)
				return true
			})
		})
	}
}

// wantPromised wants the volumes to be what they are at any time: now of this version or of the one before.
func (b *crashBench) wantPromised(policy, when string) {
	b.T.Helper()
	for _, pod := range b.pods {
		promises[policy](b.T, b.Path(pod, "."), b.version-1, b.version, when)
	}
}

// updateDies edits the source and reports whether the driver was killed before change n of the update. It was not if
// there are fewer. One sync writes the files of the pods.
func (b *crashBench) updateDies(n int) bool {
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
		if b.areCurrent(b.pods...) != nil {
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
			steps{name: "publish/" + then, lanes: 1, least: 8}.each(t, func(b *crashBench, n int) bool {
				pod := b.Pod("web", map[string]string{"configMap": "web"})
				when := fmt.Sprintf("killed before change %d of a publish", n)
				if !b.dies(n, func(ctx context.Context) error { return b.TryPublish(ctx, pod) }) {
					b.Unpublish(pod)
					return false
				}
				if mounts := environment.Mounts(b.T, b.Node.KubeletDir()); len(mounts) > 0 {
					wantWhole(b.T, b.Path(pod, "."), 0, 0, when)
				}
				b.restart()
				follow(b, pod, when)
				b.wantNone(pod, when)
				return true
			})
		})
	}
}

// TestKilledAtEachStepOfAnUnpublish is fault 13.
func TestKilledAtEachStepOfAnUnpublish(t *testing.T) {
	t.Parallel()
	steps{name: "unpublish", lanes: 1, least: 3}.each(t, func(b *crashBench, n int) bool {
		pod := b.Pod("web", map[string]string{"configMap": "web"})
		expect.NoError(b.T, b.TryPublish(b.T.Context(), pod))
		died := b.dies(n, func(ctx context.Context) error { return b.Node.UnpublishAll(ctx, pod) })
		if died {
			b.restart()
			b.Unpublish(pod)
		}
		b.wantNone(pod, fmt.Sprintf("killed before change %d of an unpublish", n))
		return died
	})
}

// TestKilledWhileVolumesShare (faults 13 and 15) kills the driver at each step of a publish of a volume
// that shares the files of a live one, and of its unpublish. The live one stays whole, follows its source
// afterwards, and nothing is left of the other.
func TestKilledWhileVolumesShare(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, b *crashBench, pod *corev1.Pod) error{
		"publish":   func(ctx context.Context, b *crashBench, pod *corev1.Pod) error { return b.TryPublish(ctx, pod) },
		"unpublish": func(ctx context.Context, b *crashBench, pod *corev1.Pod) error { return b.Node.UnpublishAll(ctx, pod) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := crashCase{policy: "Atomic", volumes: 1}
			steps{name: "shared-" + name, lanes: 1, least: 3, crashCase: live}.each(t, func(b *crashBench, n int) bool {
				pod := b.Pod("web", map[string]string{"configMap": "web", "updatePolicy": "Atomic"})
				if name == "unpublish" {
					b.Publish(pod)
				}
				died := b.dies(n, func(ctx context.Context) error { return call(ctx, b, pod) })
				when := fmt.Sprintf("killed before change %d of a shared %s", n, name)
				wantWhole(b.T, b.Path(b.pods[0], "."), b.version, b.version, when)
				if died {
					b.restart()
				}
				b.edit()
				b.Unpublish(pod)
				b.wantClean(when, b.pods...)
				return died
			})
		})
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
	expect.NoError(b.T, err)
	return false
}

// TestKilledAtEachStepOfARecovery kills the driver in the middle of an update of volumes that share their files, and
// then again and again while it starts and puts right what the first one left. These are faults 1 and 19.
func TestKilledAtEachStepOfARecovery(t *testing.T) {
	t.Parallel()
	steps{name: "recovery", lanes: 4, least: 10, crashCase: crashCases["Atomic"]}.each(t, func(b *crashBench, n int) bool {
		if !b.updateDies(9) {
			b.T.Fatal("an update has fewer than 9 changes")
		}
		b.Kill()
		tripped := b.wire.Arm(n)
		if !b.recoveryDies(tripped) {
			b.wire.Disarm()
			b.wantClean("in the end", b.pods...)
			return false
		}
		when := fmt.Sprintf("killed before change %d of a recovery", n)
		b.wantPromised("Atomic", when)
		b.restart()
		b.wantClean(when, b.pods...)
		return true
	})
}

func (b *crashBench) recoveryDies(tripped <-chan struct{}) bool {
	b.T.Helper()
	if err := b.Node.StartDriver(b.T.Context()); err != nil {
		select {
		case <-tripped: // Nothing else may keep it from starting.
		case <-time.After(fixture.Soon):
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
		if b.areCurrent(b.pods...) == nil && b.hasSynced() {
			return false
		}
	}
}
