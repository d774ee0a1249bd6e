package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/killpoint"
)

// crashBench is a bench whose driver dies between any two changes that it makes to the node.
type crashBench struct {
	*rig
	wire    *killpoint.Killer
	pods    []*corev1.Pod // With equal volumes, which are live all the time.
	version int           // That the ConfigMap holds.
}

func newCrashBench(t *testing.T, args ...string) *crashBench {
	t.Helper()
	b := &crashBench{rig: &rig{fixture.NewBare(t)}}
	b.Node, b.wire = environment.NodeOnWire(t, append([]string{"--http-endpoint=" + b.HTTP, "-v=2"}, args...)...)
	b.CreateConfigMap("web", contentOf(0))
	return b
}

// replicas publishes equal volumes.
func (b *crashBench) replicas(count int, policy string) (pods []*corev1.Pod) {
	b.T.Helper()
	for i := range count {
		pod := b.Pod(fmt.Sprint("web-", i), map[string]string{"configMap": "web", "updatePolicy": policy})
		b.Publish(pod)
		pods = append(pods, pod)
	}
	return pods
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
	b.Kill()
	b.wire.Disarm()
	b.Start()
}

// wantClean waits until the pods' volumes hold the current version and nothing else is left of what went before: for each
// one mount and one record, and in the volume no name that a volume published now would not have.
func (b *crashBench) wantClean(when string, pods ...*corev1.Pod) {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error {
		if err := b.areCurrent(pods...); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if !b.hasSynced() {
			return fmt.Errorf("%s: the driver has not looked at the volume", when)
		}
		return b.counts(len(pods))
	})
}

// areCurrent returns an error unless the pods' volumes hold the current version, and nothing else.
func (b *crashBench) areCurrent(pods ...*corev1.Pod) error {
	for _, pod := range pods {
		if err := holdsOnly(b.Path(pod, "."), contentOf(b.version)); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	return nil
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
	if mounts := environment.Mounts(b.T, b.Node.KubeletDir()); len(mounts) != volumes {
		return fmt.Errorf("%d mounts, want %d: %q", len(mounts), volumes, mounts)
	}
	return nil
}

// wantNone wants that nothing at all is left of the pod's volume.
func (b *crashBench) wantNone(pod *corev1.Pod, when string) {
	b.T.Helper()
	b.WantNothing(pod, when)
	expect.Eventually(b.T, fixture.Soon, func() error { // The driver tries now and then whether it can write a record.
		if err := b.counts(0); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		return nil
	})
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
	return fixture.SeriesOf(metrics, `liveconfig_syncs_total{result="`+result+`"}`)
}

// holdsOnly returns an error unless the volume holds the content and no other name. What starts with two dots must be
// one generation and the link to it, if there is such a link.
func holdsOnly(volume string, content map[string]string) error {
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	var names, reserved []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "..kept-"): // The inode of a file that is gone may come back, and is empty.
			info, err := e.Info()
			if err != nil || info.Size() > 0 {
				return fmt.Errorf("%s has the bytes of a file that is gone (%w)", name, err)
			}
		case strings.HasPrefix(name, ".."):
			reserved = append(reserved, name)
		default:
			names = append(names, name)
		}
	}
	if err := holds(volume, names, content); err != nil {
		return err
	}
	if len(reserved) == 0 {
		return nil
	}
	live, err := os.Readlink(filepath.Join(volume, "..data"))
	if err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(volume, live))
	if err != nil || len(files) != len(names) {
		return fmt.Errorf("..data leads to %d names, %w, want %d", len(files), err, len(names))
	}
	if slices.Sort(reserved); !slices.Equal(reserved, slices.Sorted(slices.Values([]string{live, "..data"}))) {
		return fmt.Errorf("%s holds %q, want ..data and %s", volume, reserved, live)
	}
	return nil
}

// holds returns an error unless the names in dir are those of the content, with its bytes.
func holds(dir string, names []string, content map[string]string) error {
	if len(names) != len(content) {
		return fmt.Errorf("%s holds %q, want %d names", dir, names, len(content))
	}
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		text := environment.Unmarked(string(got))
		if want, ok := content[name]; !ok || text != want {
			return fmt.Errorf("%s holds %d bytes (%.30q), want %d (%.30q)", name, len(text), text, len(want), want)
		}
	}
	return nil
}

// wantWhole wants the live generation of an Atomic volume to be a version from first to last, complete, and every name
// that is listed to lead somewhere.
func wantWhole(t testing.TB, volume string, first, last int, when string) {
	t.Helper()
	live, err := os.Readlink(filepath.Join(volume, "..data"))
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	generation := filepath.Join(volume, live)
	entries, err := os.ReadDir(generation)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	err = errors.New("no version")
	for version := last; version >= first && err != nil; version-- {
		err = holds(generation, namesOf(entries), contentOf(version))
	}
	if err != nil {
		t.Errorf("%s: the live files are not of any version from %d to %d: %v", when, first, last, err)
	}
	wantNoDeadName(t, volume, when)
}

func wantNoDeadName(t testing.TB, volume, when string) {
	t.Helper()
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, name := range namesOf(entries) {
		isOurs := strings.HasPrefix(name, "..") && name != "..data"
		if _, err := os.Stat(filepath.Join(volume, name)); err != nil && !isOurs {
			t.Errorf("%s: a name that is listed cannot be opened: %v", when, err)
		}
	}
}

func namesOf(entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wantEachFileWhole wants each file of a volume without links to be one version's, old or new.
func wantEachFileWhole(t testing.TB, volume string, first, last int, when string) {
	t.Helper()
	eachFile(t, volume, when, func(name, text string) {
		if text != contentOf(first)[name] && text != contentOf(last)[name] {
			t.Errorf("%s: %s (%.30q) is neither of version %d nor of %d", when, name, text, first, last)
		}
	})
}

// wantNoFileEmpty is what InPlace promises of a file that is being rewritten.
func wantNoFileEmpty(t testing.TB, volume string, _, _ int, when string) {
	t.Helper()
	eachFile(t, volume, when, func(name, text string) {
		if text == "" {
			t.Errorf("%s: %s is empty", when, name)
		}
	})
}

// eachFile reads what a volume without links has.
func eachFile(t testing.TB, volume, when string, do func(name, text string)) {
	t.Helper()
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, name := range namesOf(entries) {
		if strings.HasPrefix(name, "..") {
			continue
		}
		got, err := os.ReadFile(filepath.Join(volume, name))
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		do(name, environment.Unmarked(string(got)))
	}
}
