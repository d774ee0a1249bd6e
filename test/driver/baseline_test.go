package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

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
		records:     recordsHeld(b),
		tokens:      tokensHeld(b),
		pods:        entries(b, filepath.Join(b.Node.KubeletDir(), "pods")),
		rss:         rssOf(b),
	}
}

func entries(b *fixture.Fixture, dir string) int {
	b.T.Helper()
	all, err := os.ReadDir(dir)
	must(b.T, err)
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
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP)) // The race detector takes memory of its own.
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
	environment.Eventually(t, fixture.Soon, func() error { return levelOf(b).exceeds(base) })
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
