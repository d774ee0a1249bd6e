package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kit "github.com/liveconfig-csi/liveconfig/test/kit/bench"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
	"github.com/liveconfig-csi/liveconfig/test/kit/tripwire"
)

// crashBench is a bench whose driver dies between any two changes that it makes to the node.
type crashBench struct {
	*bench
	wire *tripwire.Wire
	// version is the one that the ConfigMap holds.
	version int
}

func newCrashBench(t *testing.T) *crashBench {
	t.Helper()
	b := &crashBench{bench: newCorner(t)}
	b.Node, b.wire = lab.NodeOnWire(t, "--http-endpoint="+b.HTTP, "-v=2")
	b.CreateConfigMap("web", contentOf(0))
	return b
}

// contentOf returns a version's content. Each version changes every file and its size, brings a name and drops one.
func contentOf(version int) map[string]string {
	content := map[string]string{}
	for _, name := range []string{"always", "also", fmt.Sprintf("only-%d", version), fmt.Sprintf("next-%d", version/2)} {
		content[name] = fmt.Sprintf("%s of version %d\n", name, version) + strings.Repeat("x", version*977%5000)
	}
	return content
}

// edit makes the next version and returns when the API server has taken it.
func (b *crashBench) edit() {
	b.T.Helper()
	b.version++
	b.UpdateConfigMap("web", contentOf(b.version))
}

// restart waits for the driver's end and starts it again, on a wire that lets all pass.
func (b *crashBench) restart() {
	b.T.Helper()
	if err := b.Node.Kill(); err != nil {
		b.T.Fatal(err)
	}
	b.wire.Disarm()
	if err := b.Node.StartDriver(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// wantClean waits until the pod's volume holds the current version and nothing else is left of what went before: one
// mount, one record, and in the volume no name that a volume published now would not have.
func (b *crashBench) wantClean(pod *corev1.Pod, when string) {
	b.T.Helper()
	lab.Eventually(b.T, soon, func() error {
		if err := holdsOnly(b.Path(pod, "."), contentOf(b.version)); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if !b.hasSynced() {
			return fmt.Errorf("%s: the driver has not looked at the volume", when)
		}
		return b.counts(1)
	})
}

// counts returns an error unless there are as many mounts and records as volumes.
func (b *crashBench) counts(volumes int) error {
	records, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "volumes", "*"))
	if err != nil {
		return err
	}
	if len(records) != volumes {
		return fmt.Errorf("%d records, want %d: %q", len(records), volumes, records)
	}
	if mounts := lab.Mounts(b.T, b.Node.KubeletDir()); len(mounts) != volumes {
		return fmt.Errorf("%d mounts, want %d: %q", len(mounts), volumes, mounts)
	}
	return nil
}

// wantNone wants that nothing at all is left of the pod's volume.
func (b *crashBench) wantNone(pod *corev1.Pod, when string) {
	b.T.Helper()
	b.WantNothing(pod, when)
	lab.Eventually(b.T, soon, func() error { // The driver tries now and then whether it can write a record.
		if err := b.counts(0); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		return nil
	})
}

// promises are what the files of a volume are at any time, by update policy.
var promises = map[string]func(t testing.TB, volume string, first, last int, when string){
	"Atomic": wantWhole, "Replace": wantEachFileWhole, "InPlace": wantNoFileEmpty,
}

// TestKilledAtEachStepOfAnUpdate (rules 39 to 44) kills the driver before the first change of an update, before the
// second one, and so on. These are faults 1 and 4.
func TestKilledAtEachStepOfAnUpdate(t *testing.T) {
	t.Parallel()
	for policy, check := range promises {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := newCrashBench(t)
			pod := b.Pod("web", map[string]string{"configMap": "web", "updatePolicy": policy})
			b.Publish(pod)
			steps := 0
			for n := 1; b.updateDies(pod, n); n++ {
				steps = n
				when := fmt.Sprintf("killed before change %d of an update", n)
				check(t, b.Path(pod, "."), b.version-1, b.version, when)
				b.restart()
				b.wantClean(pod, when)
			}
			b.wantClean(pod, "in the end")
			t.Attr("kills/update/"+policy, fmt.Sprint(steps))
			if steps < 8 {
				t.Errorf("the driver was killed at %d steps of an update, want at least 8", steps)
			}
		})
	}
}

// updateDies edits the source and reports whether the driver was killed before change n of the update. It was not if
// there are fewer.
func (b *crashBench) updateDies(pod *corev1.Pod, n int) bool {
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
		if holdsOnly(b.Path(pod, "."), contentOf(b.version)) != nil {
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

// hasSynced reports whether the driver has looked at a volume since it was started.
func (b *crashBench) hasSynced() bool {
	b.T.Helper()
	return slices.ContainsFunc([]string{"written", "unchanged"}, func(result string) bool {
		got := b.syncs(result)
		return got != "" && got != "0"
	})
}

// syncs returns how many syncs have ended so since the driver was started; nothing if it is dead.
func (b *crashBench) syncs(result string) string {
	b.T.Helper()
	metrics, err := b.Fetch("/metrics")
	if err != nil {
		return ""
	}
	return kit.SeriesOf(metrics, `liveconfig_syncs_total{result="`+result+`"}`)
}

// TestKilledAtEachStepOfAPublish: the kubelet tries again, or gives up and unpublishes. This is fault 15.
func TestKilledAtEachStepOfAPublish(t *testing.T) {
	t.Parallel()
	for then, follow := range map[string]func(b *crashBench, pod *corev1.Pod, when string){
		"publish": func(b *crashBench, pod *corev1.Pod, when string) {
			if err := b.TryPublish(b.T.Context(), pod); err != nil {
				b.T.Errorf("%s: publish again: %v", when, err)
			}
			b.wantClean(pod, when)
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
				if mounts := lab.Mounts(t, b.Node.KubeletDir()); len(mounts) > 0 {
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
		if err := b.TryPublish(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		b.T.Fatal(err)
	}
	return false
}

// TestKilledAtEachStepOfARecovery kills the driver in the middle of an update and then again and again while it starts
// and puts right what the first one left. These are faults 1 and 19.
func TestKilledAtEachStepOfARecovery(t *testing.T) {
	t.Parallel()
	b := newCrashBench(t)
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	b.Publish(pod)
	steps := 0
	for n := 1; ; n++ {
		if !b.updateDies(pod, 9) {
			t.Fatal("an update has fewer than 9 changes")
		}
		if err := b.Node.Kill(); err != nil {
			t.Fatal(err)
		}
		tripped := b.wire.Arm(n)
		when := fmt.Sprintf("killed before change %d of a recovery", n)
		if !b.recoveryDies(pod, tripped) {
			b.wire.Disarm()
			break
		}
		steps = n
		wantWhole(t, b.Path(pod, "."), b.version-1, b.version, when)
		b.restart()
		b.wantClean(pod, when)
	}
	b.wantClean(pod, "in the end")
	t.Attr("kills/recovery", fmt.Sprint(steps))
	if steps < 10 {
		t.Errorf("the driver was killed at %d steps of a recovery, want at least 10", steps)
	}
}

func (b *crashBench) recoveryDies(pod *corev1.Pod, tripped <-chan struct{}) bool {
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
		if holdsOnly(b.Path(pod, "."), contentOf(b.version)) == nil && b.hasSynced() {
			return false
		}
	}
}

// TestKilledAtRandom kills a driver that is updating as fast as the API server takes edits. This is fault 19.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	rounds := soak.Rounds(20, 167) // Of each policy.
	for policy, check := range promises {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := newCrashBench(t)
			pod := b.Pod("web", map[string]string{"configMap": "web", "updatePolicy": policy})
			b.Publish(pod)
			for i := range rounds {
				before := b.version
				edited := time.Now()
				for time.Since(edited) < time.Duration(i*7%40)*time.Millisecond {
					b.edit()
				}
				if err := b.Node.Kill(); err != nil {
					t.Fatal(err)
				}
				when := fmt.Sprintf("round %d", i)
				if policy != "Replace" { // A file of it may be of any version in between.
					check(t, b.Path(pod, "."), before, b.version, when)
				}
				b.restart()
				b.wantClean(pod, when)
			}
			t.Attr("kills/random/"+policy, fmt.Sprint(rounds))
		})
	}
}
