package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// startShipped starts the shipped controller with further flags.
func (s *site) startShipped(args ...string) {
	s.t.Helper()
	binary := environment.AsShipped(s.t, "liveconfig-controller")
	flags := append(append([]string{}, s.args...), append([]string{"-v=2"}, args...)...)
	p, err := process.Start(context.WithoutCancel(s.t.Context()), process.Config{Path: binary, Args: flags, LogFile: s.log})
	expect.NoError(s.t, err)
	s.process = p
}

// crowd makes Deployments without pods, which mount foo and are triggered by it.
func (s *site) crowd(size int) {
	s.t.Helper()
	var one appsv1.Deployment
	expect.NoError(s.t, yaml.UnmarshalStrict([]byte(deployment("web")), &one))
	one.Spec.Replicas = new(int32)
	expect.NoError(s.t, fixture.ForEach(s.t.Context(), size, func(ctx context.Context, i int) error {
		d := one.DeepCopy()
		d.Name = fmt.Sprintf("web-%d", i)
		_, err := s.client.AppsV1().Deployments(s.namespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	}))
}

// copyOf waits for the copy of foo that has a value.
func (s *site) copyOf(value string) *corev1.ConfigMap {
	s.t.Helper()
	var found *corev1.ConfigMap
	s.eventually(func() error {
		list, err := s.client.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
		if err != nil {
			return err
		}
		for _, made := range list.Items {
			if made.Data["config"] == value {
				found = &made
				return nil
			}
		}
		return fmt.Errorf("there is no copy of %q", value)
	})
	return found
}

// allUse waits until as many Deployments mount the copy that has a value, and as many ReplicaSets own it. It returns the
// copy, and when the last template changed.
func (s *site) allUse(value string, size int) (*corev1.ConfigMap, time.Time) {
	s.t.Helper()
	const pause = 200 * time.Millisecond
	made := s.copyOf(value)
	s.eventually(func() error {
		time.Sleep(pause) //nolint:forbidigo // To list them is work that slows down what is measured.
		list, err := s.client.AppsV1().Deployments(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		use := 0
		for _, d := range list.Items {
			if d.Spec.Template.Spec.Volumes[0].ConfigMap.Name == made.Name {
				use++
			}
		}
		if use != size {
			return fmt.Errorf("%d of %d use %s", use, size, made.Name)
		}
		return nil
	})
	last := time.Now()
	s.eventually(func() error {
		time.Sleep(pause) //nolint:forbidigo // As above.
		made = s.copyOf(value)
		for _, o := range made.OwnerReferences {
			if o.Kind != "ReplicaSet" {
				return fmt.Errorf("%s is owned by %s %s", made.Name, o.Kind, o.Name)
			}
		}
		if len(made.OwnerReferences) != size {
			return fmt.Errorf("%s has %d owners, want %d", made.Name, len(made.OwnerReferences), size)
		}
		return nil
	})
	return made, last
}

// calm waits until the controller has asked nothing for a while.
func (s *site) calm(while time.Duration) {
	s.t.Helper()
	s.eventually(func() error {
		since := time.Now()
		time.Sleep(while) //nolint:forbidigo // That nothing happens is what is waited for.
		if asked := s.requested(since); len(asked) > 0 {
			return fmt.Errorf("%d requests, the first: %s", len(asked), asked[0])
		}
		return nil
	})
}

// cost is what the controller's process has used.
func (s *site) cost() (proc.Memory, proc.Work) {
	s.t.Helper()
	memory, err := proc.MemoryOf(s.process.PID())
	expect.NoError(s.t, err)
	work, err := proc.WorkOf(s.process.PID())
	expect.NoError(s.t, err)
	return memory, work
}

// edited edits foo, waits until all use it, and returns the requests and the time which that took.
func (s *site) edited(value string, size int) (map[string]int, time.Duration) {
	s.t.Helper()
	_, before := s.cost()
	since := time.Now()
	s.putConfigMap("foo", value)
	made, last := s.allUse(value, size)
	s.calm(2 * time.Second)
	memory, work := s.cost()
	counts := counted(s.requested(since))
	meta, err := json.Marshal(made.ObjectMeta)
	expect.NoError(s.t, err)
	s.t.Logf("%d workloads: %s until the last template, %s of processor, %d KiB resident, %d bytes of metadata on the copy, requests:\n%s",
		size, last.Sub(since).Round(10*time.Millisecond), work.Since(before).CPU.Round(time.Millisecond), memory.Resident>>10, len(meta), table(counts))
	return counts, last.Sub(since)
}

// most wants no more requests of a kind than that.
func most(t *testing.T, counts map[string]int, kind string, limit int) {
	t.Helper()
	if got := counts[kind]; got > limit {
		t.Errorf("%d requests to %s, want at most %d", got, kind, limit)
	}
}

// sourceEvents is how many Events there are about one version of a source at most.
const sourceEvents = 10

// workers is how many workloads the controller works on at a time: so many can find at once that a copy is missing.
const workers = 4

// ownersPause is how long a copy that has owners waits for more, before they are written.
const ownersPause = 5 * time.Second

// TestGuardCrowd: one edit of a source of many workloads is one copy, one write and one Event for each of them, few looks at
// the source, and nothing after that. A start where nothing has changed writes nothing.
func TestGuardCrowd(t *testing.T) {
	t.Parallel()
	size := soak.Rounds(100, 500)
	s := newIdleSite(t)
	s.putConfigMap("foo", "one")
	s.crowd(size)
	s.startShipped("--rollout-rate=1000")
	s.allUse("one", size)
	s.calm(2 * time.Second)

	for i, rate := range []string{"1000", "10"} {
		if i > 0 {
			s.stop()
			since := time.Now()
			s.startShipped("--rollout-rate=" + rate)
			s.calm(2 * time.Second)
			counts := counted(s.requested(since))
			t.Logf("a start with nothing to do:\n%s", table(counts))
			for kind := range counts {
				if verb, _, _ := strings.Cut(kind, " "); verb != "watch" && verb != "list" {
					t.Errorf("a start with nothing to do asked to %s", kind)
				}
			}
		}
		counts, took := s.edited("at "+rate, size)
		most(t, counts, "patch deployments", size)
		most(t, counts, "create configmaps", 6*workers) // Until the watch shows the copy, each looks for itself: on a busy machine for longer.
		most(t, counts, "get configmaps", 12*workers)
		most(t, counts, "create events", size+sourceEvents)
		most(t, counts, "patch configmaps", 5+int(took/ownersPause))
	}
	since := time.Now()
	s.calm(20 * time.Second)
	if took := time.Since(since); took > 70*time.Second { // A late answer of the API server to what went before is not a poll.
		t.Errorf("it took %s until nothing was asked for 20 s", took)
	}
	made, err := s.client.CoreV1().ConfigMaps(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
	expect.NoError(t, err)
	if len(made.Items) != 3 {
		t.Errorf("there are %d copies, want one for each of 3 versions", len(made.Items))
	}
}

// TestGuardBigObjectsCostNoMemory: what the controller has in memory does not depend on the content of objects that it
// watches: neither while they are made, nor when it starts where they are.
func TestGuardBigObjectsCostNoMemory(t *testing.T) {
	t.Parallel()
	const objects, size, mostMore, mostAtStart = 300, 500 << 10, 40 << 20, 160 << 20
	s := newIdleSite(t)
	s.putConfigMap("foo", "one")
	s.startShipped()
	s.calm(2 * time.Second)
	before, _ := s.cost()
	s.big(objects, size)
	s.calm(2 * time.Second)
	after, _ := s.cost()
	if more := after.Anonymous - before.Anonymous; more > mostMore {
		t.Errorf("%d objects of %d KiB took %d KiB of memory, want at most %d", objects, size>>10, more>>10, mostMore>>10)
	}
	s.stop()
	s.startShipped()
	s.calm(2 * time.Second)
	started, work := s.cost()
	peak := s.peak()
	if peak > mostAtStart {
		t.Errorf("a start with them took up to %d KiB of memory, want at most %d", peak>>10, mostAtStart>>10)
	}
	t.Logf("%d objects of %d KiB: %d KiB resident before, %d KiB after; a start with them: %d KiB, %d KiB at most, %s of processor",
		objects, size>>10, before.Resident>>10, after.Resident>>10, started.Resident>>10, peak>>10, work.CPU.Round(time.Millisecond))
}

// big makes as many objects of a size, half of them Secrets, which go at the end of the test: others need the room.
func (s *site) big(objects, size int) {
	s.t.Helper()
	core := s.client.CoreV1()
	text := strings.Repeat("x", size)
	name := func(i int) string { return fmt.Sprintf("big-%d", i) }
	s.t.Cleanup(func() { // One by one: a request for all of them reads all, which may take longer than a request can.
		none := metav1.DeleteOptions{}
		expect.NoError(s.t, fixture.ForEach(context.WithoutCancel(s.t.Context()), objects, func(ctx context.Context, i int) error {
			if i%2 == 0 {
				return core.Secrets(s.namespace).Delete(ctx, name(i), none)
			}
			return core.ConfigMaps(s.namespace).Delete(ctx, name(i), none)
		}))
	})
	expect.NoError(s.t, fixture.ForEach(s.t.Context(), objects, func(ctx context.Context, i int) (err error) {
		meta := metav1.ObjectMeta{Name: name(i)}
		if i%2 == 0 {
			_, err = core.Secrets(s.namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"k": text}}, metav1.CreateOptions{})
		} else {
			_, err = core.ConfigMaps(s.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": text}}, metav1.CreateOptions{})
		}
		return err
	}))
}

// peak returns the most that the controller's process has had in memory, in bytes.
func (s *site) peak() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.PID()))
	expect.NoError(s.t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		s.t.Fatalf("read the peak of memory: %v", err)
	}
	return kilobytes << 10
}
