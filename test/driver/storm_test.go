package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// A node runs 110 pods, unless somebody allows more.
const podsOfANode = 110

// atOnce is how many calls are under way at a time.
const atOnce = 16

// TestANodeStarts (fault 30) publishes five volumes of each of 110 pods, as the kubelet of a node does that was started.
// All are there, of each object there is one watch however many volumes use it, and all are gone again in the end.
func TestANodeStarts(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	const shared, secrets = 20, 5
	for i := range shared {
		b.CreateConfigMap(fmt.Sprintf("shared-%d", i), map[string]string{"n": strconv.Itoa(i)})
	}
	for i := range secrets {
		b.SetSecret(fmt.Sprintf("key-%d", i), map[string]string{"n": strconv.Itoa(i)})
	}
	pods := make([]*corev1.Pod, podsOfANode)
	for i := range pods {
		own := fmt.Sprintf("own-%d", i)
		b.CreateConfigMap(own, map[string]string{"n": own})
		pods[i] = b.Pod(own, map[string]string{"configMap": own})
		fixture.AddVolume(pods[i], "shared", map[string]string{"configMap": fmt.Sprintf("shared-%d", i%shared)})
		fixture.AddVolume(pods[i], "replace", map[string]string{"configMap": fmt.Sprintf("shared-%d", (i+7)%shared), "updatePolicy": "Replace"})
		fixture.AddVolume(pods[i], "secret", map[string]string{"secret": fmt.Sprintf("key-%d", i%secrets)})
		fixture.AddVolume(pods[i], "both", map[string]string{
			"sources": fmt.Sprintf("[{configMap: {name: shared-%d}}, {configMap: {name: none, optional: true}}]", i%shared),
		})
	}
	rss := rssOf(b)
	begin := time.Now()
	forEach(t, pods, func(pod *corev1.Pod) error { return b.TryPublish(t.Context(), pod) })
	t.Attr("storm/start/seconds", fmt.Sprintf("%.1f", time.Since(begin).Seconds()))
	t.Attr("storm/start/rss-growth-MiB", strconv.Itoa((rssOf(b)-rss)>>20))
	for i, pod := range pods {
		for volume, want := range map[string]string{
			fixture.VolumeName: pod.Name, "shared": strconv.Itoa(i % shared), "replace": strconv.Itoa((i + 7) % shared),
			"secret": strconv.Itoa(i % secrets), "both": strconv.Itoa(i % shared),
		} {
			if err := b.VolumeHolds(pod, volume, "n", want); err != nil {
				t.Error(err)
			}
		}
	}
	b.WantMounts(5*podsOfANode, "when all are published")
	b.WantNumber("liveconfig_volumes", 5*podsOfANode)
	b.WantNumber("liveconfig_watches", podsOfANode+shared+secrets+1) // One for what does not exist.
	forEach(t, pods, func(pod *corev1.Pod) error { return b.Node.UnpublishAll(t.Context(), pod) })
	b.WantMounts(0, "when all are gone")
	b.WantNumber("liveconfig_watches", 0)
}

// forEach calls do for every pod, some at a time, and fails the test with every error.
func forEach(t testing.TB, pods []*corev1.Pod, do func(*corev1.Pod) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, pod := range pods {
		group.Go(func() error {
			if err := do(pod); err != nil {
				t.Errorf("pod %s: %v", pod.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOneObjectOfManyVolumesChangesAllTheTime (fault 30) changes a ConfigMap that 110 volumes have a hundred times a
// second. In the end all hold the last version. When the driver is kept from working meanwhile, what has piled up is a few
// writes for each volume, and not one for each change.
func TestOneObjectOfManyVolumesChangesAllTheTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fileSystems int // That the volumes have together.
		attributes  func(i int) map[string]string
	}{
		"different volumes": {podsOfANode, ownMode("busy")},
		"equal volumes":     {1, func(int) map[string]string { return map[string]string{"configMap": "busy"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOneObjectChangesAllTheTime(t, tt.fileSystems, tt.attributes)
		})
	}
}

// ownMode returns attributes of volumes of one ConfigMap, each with another mode, so that no two share
// their files.
func ownMode(configMap string) func(i int) map[string]string {
	return func(i int) map[string]string {
		return map[string]string{"configMap": configMap, "defaultMode": fmt.Sprintf("%04o", 0o400+i)}
	}
}

func testOneObjectChangesAllTheTime(t *testing.T, fileSystems int, attributes func(i int) map[string]string) {
	t.Helper()
	b := fixture.New(t)
	b.CreateConfigMap("busy", map[string]string{"n": "0"})
	pods := make([]*corev1.Pod, podsOfANode)
	for i := range pods {
		pods[i] = b.Pod(fmt.Sprintf("web-%d", i), attributes(i))
	}
	forEach(t, pods, func(pod *corev1.Pod) error { return b.TryPublish(t.Context(), pod) })
	t.Cleanup(func() { // One after the other would take long.
		forEach(t, pods, func(pod *corev1.Pod) error { b.Unpublish(pod); return nil })
	})

	changes := 0
	begin := time.Now()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for time.Since(begin) < time.Duration(soak.Rounds(3, 60))*time.Second {
		<-pace.C
		changes++
		b.UpdateConfigMap("busy", map[string]string{"n": strconv.Itoa(changes)})
	}
	t.Attr("storm/changes-a-second", fmt.Sprintf("%.0f", float64(changes)/time.Since(begin).Seconds()))
	wantEverywhere(b, pods, strconv.Itoa(changes))
	t.Attr("storm/writes-of-possible", fmt.Sprintf("%.0f/%d", b.Number(written), changes*fileSystems))

	before := b.Number(written)
	const piled = 50
	expect.NoError(t, unix.Kill(b.Node.PID(), unix.SIGSTOP))
	defer func() { _ = unix.Kill(b.Node.PID(), unix.SIGCONT) }()
	for n := range piled {
		set(b, "busy", fmt.Sprint("piled ", n+1))
	}
	expect.NoError(t, unix.Kill(b.Node.PID(), unix.SIGCONT))
	wantEverywhere(b, pods, fmt.Sprint("piled ", piled))
	// A write is counted a moment after its files can be read.
	if writes := b.Number(written) - before; writes < float64(fileSystems)/2 || writes > float64(piled*fileSystems)/2 {
		t.Errorf("%v writes for %d changes in a row of an object in %d file systems, want a few for each", writes, piled, fileSystems)
	}
}

// written counts the syncs that changed files.
const written = `liveconfig_syncs_total{result="written"}`

// wantEverywhere waits until the volumes of all pods hold the number.
func wantEverywhere(b *fixture.Fixture, pods []*corev1.Pod, n string) {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error {
		var errs []error
		for _, pod := range pods {
			errs = append(errs, b.Holds(pod, "n", n))
		}
		return errors.Join(errs...)
	})
}

// level is what a driver has at one moment.
type level struct {
	goroutines, descriptors, mounts, watches, volumes, records, tokens, pods, rss int
}

func levelOf(b *fixture.Fixture) level {
	b.T.Helper()
	return level{
		goroutines:  int(b.Number("go_goroutines")),
		descriptors: entries(b, fmt.Sprintf("/proc/%d/fd", b.Node.PID())),
		mounts:      len(environment.Mounts(b.T, b.Node.KubeletDir())),
		watches:     int(b.Number("liveconfig_watches")),
		volumes:     int(b.Number("liveconfig_volumes")),
		records:     entries(b, filepath.Join(b.Node.StateDir(), "volumes")),
		tokens:      entries(b, filepath.Join(b.Node.StateDir(), "tokens")),
		pods:        entries(b, filepath.Join(b.Node.KubeletDir(), "pods")),
		rss:         rssOf(b),
	}
}

func entries(b *fixture.Fixture, dir string) int {
	b.T.Helper()
	all, err := os.ReadDir(dir)
	expect.NoError(b.T, err)
	return len(all)
}

// exceeds returns an error where a level is above an earlier one by more than its use varies.
func (l level) exceeds(base level) error {
	const some = 10 // Connections come and go, and so do what the runtime does in the background.
	const noise = 16 << 20
	switch {
	case l.mounts != base.mounts, l.watches != base.watches, l.volumes != base.volumes, l.records != base.records,
		l.tokens != base.tokens, l.pods != base.pods:
	case l.goroutines > base.goroutines+some, l.descriptors > base.descriptors+some, l.rss > base.rss+noise:
	default:
		return nil
	}
	return fmt.Errorf("the driver is at %+v, want it back at %+v", l, base)
}

// TestAThousandVolumesComeAndGo (faults 12, 15 and 18): each publish starts what its volume needs and each unpublish ends
// it, down to the last goroutine, descriptor and watch. Beside them one volume stays all the time.
func TestAThousandVolumesComeAndGo(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP)) // The race detector takes memory itself.
	b.AllowSecrets("default")
	b.CreateConfigMap("stays", map[string]string{"n": "0"})
	stays := b.Pod("stays", map[string]string{"configMap": "stays"})
	b.Publish(stays)
	pods := make([]*corev1.Pod, 8)
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		b.CreateConfigMap(name, map[string]string{"key": name})
		b.SetSecret(name, map[string]string{"key": name})
		source := []string{"configMap", "configMap", "configMap", "secret"}[i%4]
		pods[i] = b.Pod(name, map[string]string{source: name})
	}
	cycle := func(times int) {
		forEach(t, pods, func(pod *corev1.Pod) error {
			for range times / len(pods) {
				if err := b.TryPublish(t.Context(), pod); err != nil {
					return err
				}
				if err := b.Holds(pod, "key", pod.Name); err != nil {
					return err
				}
				if err := b.Node.UnpublishAll(t.Context(), pod); err != nil {
					return err
				}
			}
			return nil
		})
	}
	cycle(80)
	base := levelOf(b)
	if base.volumes != 1 || base.watches != 1 || base.mounts != 1 {
		t.Errorf("the driver begins with %+v, want one volume", base)
	}
	const cycles = 1000
	cycle(cycles)
	expect.Eventually(t, fixture.Soon, func() error { return levelOf(b).exceeds(base) })
	after := levelOf(b)
	t.Attr("baseline/cycles", strconv.Itoa(cycles))
	t.Attr("baseline/rss-growth-KiB", strconv.Itoa((after.rss-base.rss)>>10))
	t.Attr("baseline/goroutines", fmt.Sprintf("%d, %d before", after.goroutines, base.goroutines))
	t.Attr("baseline/descriptors", fmt.Sprintf("%d, %d before", after.descriptors, base.descriptors))
	b.UpdateConfigMap("stays", map[string]string{"n": "1"})
	b.WantFile(stays, "n", "1")

	b.Publish(pods[0]) // The levels do show one volume more.
	if err := levelOf(b).exceeds(base); err == nil {
		t.Error("one volume more does not show")
	}
}
