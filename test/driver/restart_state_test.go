package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// newerRecord is one that a later version of the driver may have written.
const newerRecord = `{"schemaVersion": 2, "volumes": [{"id": "nobody knows yet"}]}`

// damages are what may happen to a record while no driver runs.
var damages = map[string]func(path string) error{
	"torn": func(path string) error {
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, data[:len(data)/2], 0o600))
	},
	"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"no-json": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{0}, 512), 0o600) },
	"removed": os.Remove,
	"newer":   func(path string) error { return os.WriteFile(path, []byte(newerRecord), 0o600) },
	"another-volumes": func(path string) error {
		return os.WriteFile(path, []byte(`{"schemaVersion": 1, "volumeID": "x"}`), 0o600)
	},
	"unknown-fields": func(path string) error {
		data, err := os.ReadFile(path)
		var fields map[string]any
		err = errors.Join(err, json.Unmarshal(data, &fields))
		fields["later"] = map[string]any{"a": 1}
		data, problem := json.Marshal(fields)
		return errors.Join(err, problem, os.WriteFile(path, data, 0o600))
	},
}

// TestDamagedRecords (faults 19 and 20) has one volume with each sort of damage, and one with none. No damage is in the way
// of another volume; the files of all stay; a repeat takes a damaged one over as it is; and from then on all is as if
// nothing had been. The record of a newer driver stays what it is all the time, with the token that belongs to it: a
// downgrade that is taken back has lost nothing.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.SetSecret("key", map[string]string{"n": "1"})
	pods := map[string]*corev1.Pod{"sound": b.Pod("sound", map[string]string{"secret": "key"})}
	for name := range damages {
		pods[name] = b.Pod(name, map[string]string{"secret": "key"})
	}
	generations := map[string]string{}
	for name, pod := range pods {
		b.Publish(pod)
		generations[name] = b.Generation(pod)
	}
	b.Kill()
	for name, damage := range damages {
		must(t, damage(recordOf(b, pods[name])))
	}
	b.Start()
	b.WantNumber("liveconfig_volumes", 2) // The sound one, and that with fields that nobody knows.
	for name, pod := range pods {
		if err := errors.Join(b.TryPublish(t.Context(), pod), b.Holds(pod, "n", "1")); err != nil {
			t.Errorf("republish of a volume whose record is %s: %v", name, err)
		}
		if got := b.Generation(pod); got != generations[name] {
			t.Errorf("%s: generation %s became %s, want the live content adopted", name, generations[name], got)
		}
	}
	b.WantMounts(len(pods), "after the repeats")
	b.SetSecret("key", map[string]string{"n": "2"})
	wantAll(b, pods, "n", "2")

	b.Kill()
	b.SetSecret("key", map[string]string{"n": "3"})
	b.Start()
	newer := pods["newer"]
	delete(pods, "newer") // Of it this driver knows nothing until the kubelet's next repeat.
	wantAll(b, pods, "n", "3")
	if got, err := os.ReadFile(recordOf(b, newer)); string(got) != newerRecord || err != nil {
		t.Errorf("the record of a newer driver is now %q, %v", got, err)
	}
	if tokens := tokensHeld(b); tokens != len(pods)+1 {
		t.Errorf("%d tokens are held, want %d: one for each volume", tokens, len(pods)+1)
	}
	if err := b.TryPublish(t.Context(), newer); err != nil {
		t.Error(err)
	}
	b.WantFile(newer, "n", "3")
}

// wantAll waits until the file has the text in every pod.
func wantAll(b *fixture.Fixture, pods map[string]*corev1.Pod, file, want string) {
	b.T.Helper()
	for _, pod := range pods {
		b.WantFile(pod, file, want)
	}
}

// recordOf returns the path of a volume's record, by the name that the driver's records have on every node.
func recordOf(b *fixture.Fixture, pod *corev1.Pod) string {
	return filepath.Join(b.Node.StateDir(), "volumes", sum(fakekubelet.VolumeID(pod, fixture.VolumeName))+".json")
}

func tokensHeld(b *fixture.Fixture) int {
	b.T.Helper()
	files, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "tokens", "*.json"))
	must(b.T, err)
	return len(files)
}

// TestTheStateIsWiped (fault 20) removes the whole state directory. Under a running driver a repeat brings back all of it,
// so that the next run misses nothing; one that starts without any takes the live volumes over, as they are, with the
// kubelet's next repeat.
func TestTheStateIsWiped(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.SetSecret("key", map[string]string{"n": "1"})
	pod := b.Pod("web", map[string]string{"secret": "key"})
	b.Publish(pod)
	wipe := func() {
		must(t, os.RemoveAll(b.Node.StateDir()))
	}
	wipe()
	b.SetSecret("key", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2") // A running driver does not need it.
	must(t, b.TryPublish(t.Context(), pod))
	b.Kill()
	b.SetSecret("key", map[string]string{"n": "3"})
	b.Start()
	b.WantFile(pod, "n", "3") // Record and token were there again.

	b.Stop()
	wipe()
	before := b.Generation(pod)
	b.Start()
	b.WantNumber("liveconfig_volumes", 0)
	must(t, b.TryPublish(t.Context(), pod))
	if after := b.Generation(pod); after != before {
		t.Errorf("generation %s became %s, want the live content adopted", before, after)
	}
	b.WantMounts(1, "in the end")
	b.SetSecret("key", map[string]string{"n": "4"})
	b.WantFile(pod, "n", "4")
}

// TestTheStateIsSwept (fault 20) has somebody clear the state directory of whatever is old, all the time, as
// systemd-tmpfiles does after ten days. Nothing fails, and a repeat is all it takes to have everything again.
func TestTheStateIsSwept(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.SetSecret("key", map[string]string{"n": "0"})
	pod := b.Pod("web", map[string]string{"secret": "key"})
	b.Publish(pod)
	other := b.Pod("other", map[string]string{"secret": "key"})
	var swept atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { sweep(ctx, b.Node.StateDir(), &swept) })
	for i := 0; i < 30 || swept.Load() < 10; i++ {
		if err := b.TryPublish(t.Context(), other); err != nil {
			t.Errorf("publish: %v", err)
		}
		b.SetSecret("key", map[string]string{"n": fmt.Sprint(i)})
		b.WantFile(pod, "n", fmt.Sprint(i))
		if err := errors.Join(b.TryPublish(t.Context(), pod), b.Node.UnpublishAll(t.Context(), other)); err != nil {
			t.Errorf("repeat and unpublish: %v", err)
		}
	}
	stop()
	sweeping.Wait()
	must(t, b.TryPublish(t.Context(), pod))
	b.Kill()
	b.SetSecret("key", map[string]string{"n": "last"})
	b.Start()
	b.WantFile(pod, "n", "last")
	b.WantMounts(1, "in the end")
}

// sweep removes, until the context ends, every file and every empty directory below dir that has been left alone for a
// while, and counts the files.
func sweep(ctx context.Context, dir string, removed *atomic.Int64) {
	const old = 400 * time.Millisecond // In place of days. A file is not that long on its way to its name.
	ticker := time.NewTicker(old / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // It has gone meanwhile.
			}
			info, err := d.Info()
			if err != nil || time.Since(info.ModTime()) < old {
				return nil //nolint:nilerr // Likewise.
			}
			if os.Remove(path) == nil && !d.IsDir() {
				removed.Add(1)
			}
			return nil
		})
	}
}
