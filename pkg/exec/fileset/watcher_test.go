package fileset_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

// TestMain gives the tests a separate mount namespace: one of them mounts a single file.
func TestMain(m *testing.M) {
	// Most tests wait until no more events come, so many run in parallel, unless the command line sets another number.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(mountns.Main(m))
}

// timeout is how long a notification of a change may take.
const timeout = 30 * time.Second

// watching is a watcher that runs.
type watching struct {
	*fileset.Watcher

	sources []environ.Source
}

func watch(t *testing.T, sources ...environ.Source) watching {
	t.Helper()
	return watchWith(t, fileset.Config{Polling: func(reason error) { t.Errorf("polling because of %v", reason) }}, sources...)
}

func watchWith(t *testing.T, cfg fileset.Config, sources ...environ.Source) watching {
	t.Helper()
	w := fileset.NewWatcher(cfg)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	all := watching{w, sources}
	grow()
	all.again(t)
	return all
}

// grow waits until what was written before counts as old.
func grow() { <-time.After(50 * time.Millisecond) }

// again watches what the sources are now.
func (w watching) again(t *testing.T) {
	t.Helper()
	set, err := fileset.Read(t.Context(), w.sources)
	expect.NoError(t, err)
	w.Watch(set)
}

// hears waits for a change, and watches again until there is none to be heard.
func (w watching) hears(t *testing.T, what string) {
	t.Helper()
	select {
	case <-w.Changes():
	case <-time.After(timeout):
		t.Fatalf("there is no notification of this: %s", what)
	}
	w.drain(t)
}

// drain takes what is left of earlier changes: a change at a separate path comes after it.
func (w watching) drain(t *testing.T) {
	t.Helper()
	w.again(t)
	mark := filepath.Join(t.TempDir(), "mark")
	mustWrite(t, mark, "1")
	set, err := fileset.Read(t.Context(), []environ.Source{{Kind: environ.Key, Path: mark}})
	expect.NoError(t, err)
	w.Watch(set)
	mustRemove(t, mark)
	<-w.Changes()
	// The file's end is several events, which may come in two reads.
	for {
		select {
		case <-w.Changes():
		case <-time.After(500 * time.Millisecond):
			return
		}
	}
}

func mustWrite(t *testing.T, path, data string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}

func mustRemove(t *testing.T, path string) {
	t.Helper()
	expect.NoError(t, os.RemoveAll(path))
}

func TestWatchEachLayout(t *testing.T) {
	t.Parallel()
	for name, writer := range volumes.Layouts() {
		sources := map[string]func(volume) environ.Source{
			"directory": volume.dir, "key": func(v volume) environ.Source { return v.key("sub/a") },
		}
		for kind, source := range sources {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				v := newVolume(t, writer)
				v.write(t, files{"a": "1", "sub/a": "1"})
				w := watch(t, source(v))
				v.write(t, files{"a": "2", "sub/a": "2"})
				w.hears(t, "a change")
				v.write(t, files{"a": "22", "sub/a": "33"})
				w.hears(t, "a second change")
				v.write(t, files{"b": "2"})
				w.hears(t, "a file that goes, with its directory")
				v.write(t, files{"a": "3", "sub/a": "3"})
				w.hears(t, "a file that comes back, with its directory")
			})
		}
	}
}

func TestWatchWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := filepath.Join(dir, "not", "yet", "there")
	w := watch(t, environ.Source{Kind: environ.Key, Path: deep})
	for _, name := range []string{"not", "not/yet"} {
		expect.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		w.hears(t, name)
	}
	mustWrite(t, deep, "1")
	w.hears(t, "the file")
}

// TestWatchOneFileThatIsMounted is what a container sees of a volume by subPath: a file that changes in its inode, by a
// name elsewhere.
func TestWatchOneFileThatIsMounted(t *testing.T) {
	t.Parallel()
	v := newVolume(t, volumes.Layouts()["InPlace"])
	v.write(t, files{"a": "1"})
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "seen"), "")
	expect.NoError(t, unix.Mount(filepath.Join(v.Path, "a"), filepath.Join(dir, "seen"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "seen"), unix.MNT_DETACH) })
	for _, kind := range []environ.Source{
		{Kind: environ.Key, Path: filepath.Join(dir, "seen")}, {Kind: environ.Dir, Path: dir},
	} {
		w := watch(t, kind)
		v.write(t, files{"a": "2" + kind.Path})
		w.hears(t, kind.String())
	}
}

// TestWatchIgnores: changes of other files, and reads, are not changes.
func TestWatchKeepsQuiet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "a"), "1")
	w := watch(t, environ.Source{Kind: environ.Key, Path: filepath.Join(dir, "a")})
	w.drain(t)
	mustWrite(t, filepath.Join(dir, "other"), "1")
	w.again(t)
	mustRemove(t, filepath.Join(dir, "other"))
	select {
	case <-w.Changes():
		t.Error("there was a notification of a change")
	case <-time.After(200 * time.Millisecond):
	}
}

// TestWatchAfterAChange: what changed between reading and watching counts.
func TestWatchAfterAChange(t *testing.T) {
	t.Parallel()
	v := newVolume(t, volumes.Layouts()["Atomic"])
	v.write(t, files{"a": "1"})
	set, err := fileset.Read(t.Context(), []environ.Source{v.dir()})
	expect.NoError(t, err)
	v.write(t, files{"a": "2"})
	w := watch(t)
	w.Watch(set)
	w.hears(t, "a change before")
}

func TestSettle(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := map[string]struct {
		// changes are pauses before each change, and want is when each is passed on.
		changes []time.Duration
		want    []time.Duration
	}{
		"one change":                             {[]time.Duration{50 * ms}, []time.Duration{150 * ms}},
		"changes close together are one":         {[]time.Duration{0, 90 * ms, 90 * ms}, []time.Duration{280 * ms}},
		"changes far apart are two":              {[]time.Duration{0, 110 * ms}, []time.Duration{100 * ms, 210 * ms}},
		"one that goes on does not wait forever": {slices.Repeat([]time.Duration{90 * ms}, 30), []time.Duration{2090 * ms, 2800 * ms}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				changes, settled := make(chan struct{}, 1), make(chan struct{}, 1)
				go fileset.Settle(ctx, changes, settled, 100*ms, 2*time.Second)
				start := time.Now()
				var got []time.Duration
				go func() {
					for range settled {
						got = append(got, time.Since(start))
					}
				}()
				for _, pause := range tt.changes {
					time.Sleep(pause) //nolint:forbidigo // In a bubble it takes no time.
					changes <- struct{}{}
				}
				time.Sleep(time.Minute) //nolint:forbidigo // As above.
				stop()
				synctest.Wait()
				close(settled)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("passed on at (-want +got):\n%s", diff)
				}
			})
		})
	}
}
