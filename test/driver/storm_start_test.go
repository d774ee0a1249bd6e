package driver

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
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
	must(t, unix.Kill(b.Node.PID(), unix.SIGSTOP))
	defer func() { _ = unix.Kill(b.Node.PID(), unix.SIGCONT) }()
	for n := range piled {
		set(b, "busy", fmt.Sprint("piled ", n+1))
	}
	must(t, unix.Kill(b.Node.PID(), unix.SIGCONT))
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
	environment.Eventually(b.T, fixture.Soon, func() error {
		var errs []error
		for _, pod := range pods {
			errs = append(errs, b.Holds(pod, "n", n))
		}
		return errors.Join(errs...)
	})
}
