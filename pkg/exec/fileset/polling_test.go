package fileset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/userlimits"
)

// polling is a watcher that must poll.
type polling struct {
	watching

	reasons chan error
}

// interval is how often it looks.
const interval = 20 * time.Millisecond

// never has a watcher find changes by looks at the files alone.
func never() fileset.Config { return fileset.Config{Retry: time.Hour} }

func newPolling(t *testing.T, cfg fileset.Config, sources ...environ.Source) polling {
	t.Helper()
	p := polling{reasons: make(chan error, 100)}
	cfg.Interval, cfg.Polling = interval, func(reason error) { p.reasons <- reason }
	p.watching = watchWith(t, cfg, sources...)
	return p
}

// reports waits until the watcher reports that it polls, for a reason, or that it does not need to any more.
func (p polling) reports(t *testing.T, reason string) {
	t.Helper()
	select {
	case err := <-p.reasons:
		if (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Fatalf("polling because of %v, want %q", err, reason)
		}
	case <-time.After(timeout):
		t.Fatalf("it does not report that it polls because of %q", reason)
	}
}

// reportsNothing checks that nothing more was reported.
func (p polling) reportsNothing(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.reasons:
		t.Errorf("polling because of %v, which was said before", err)
	default:
	}
}

// finds waits for a change, and watches what is there then.
func (p polling) finds(t *testing.T, what string) {
	t.Helper()
	select {
	case <-p.Changes():
	case <-time.After(timeout):
		t.Fatalf("there is no notification of this: %s", what)
	}
	p.isQuiet(t)
}

// isQuiet watches again until nothing is young, so that each change is heard for itself.
func (p polling) isQuiet(t *testing.T) {
	t.Helper()
	for {
		p.again(t)
		select {
		case <-p.Changes():
		case <-time.After(10 * interval):
			return
		}
	}
}

// endsPolling waits until the watcher does not poll any more. Without a change, it reports that there may be one, to be asked to
// watch again.
func (p polling) endsPolling(t *testing.T) {
	t.Helper()
	end := time.After(timeout)
	for {
		select {
		case <-p.Changes():
			p.again(t)
		case err := <-p.reasons:
			if err != nil {
				t.Fatalf("polling because of %v, which was said before", err)
			}
			return
		case <-end:
			t.Fatal("the watcher polls although it has no reason to")
		}
	}
}

const (
	noInstances = "fs.inotify.max_user_instances"
	noWatches   = "fs.inotify.max_user_watches"
)

// TestPollingWithoutInstances: others have used up what a user may have of inotify. Each kind of change is found nevertheless.
// This is fault 43.
func TestPollingWithoutInstances(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	userlimits.Set(t, userlimits.InotifyInstances, 0)
	dir := t.TempDir()
	late := environ.Source{Kind: environ.Key, Path: filepath.Join(dir, "not", "yet")}
	for name, writer := range volumes.Layouts() {
		v := newVolume(t, writer)
		v.write(t, files{"a": "1", "sub/a": "1"})
		p := newPolling(t, never(), v.dir(), v.key("sub/a"), late)
		p.reports(t, noInstances)
		p.isQuiet(t)
		for _, step := range []files{{"a": "2", "sub/a": "1"}, {"a": "2", "sub/a": "2"}, {"b": "2"}, {"a": "3", "sub/a": "3"}} {
			v.write(t, step)
			p.finds(t, name)
		}
		expect.NoError(t, os.MkdirAll(filepath.Dir(late.Path), 0o700))
		mustWrite(t, late.Path, "1")
		p.finds(t, "a file that was missing")
		mustRemove(t, filepath.Dir(late.Path))
		p.finds(t, "a file that goes")
		p.reportsNothing(t)
	}
}

// TestPollingWithoutWatches: those of a user are used up, at the start, or when files come. What is watched still is reported at once.
// This is fault 43.
func TestPollingWithoutWatches(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	v := newVolume(t, volumes.Layouts()["Replace"])
	v.write(t, files{"a": "1"})
	userlimits.Set(t, userlimits.InotifyWatches, 1)
	first := newPolling(t, never(), v.dir())
	first.reports(t, noWatches)
	first.isQuiet(t)
	v.write(t, files{"a": "2"})
	first.finds(t, "a change")

	userlimits.Set(t, userlimits.InotifyWatches, 1000)
	later := newPolling(t, never(), v.dir())
	later.isQuiet(t)
	later.reportsNothing(t)
	userlimits.Set(t, userlimits.InotifyWatches, 1)
	v.write(t, files{"a": "2", "b": "1"})
	later.finds(t, "a file that comes")
	later.reports(t, noWatches)
	v.write(t, files{"a": "2", "b": "2"})
	later.finds(t, "a change of the new file")
	later.reportsNothing(t)
}

// TestPollingEnds when the kernel has what it lacked, without any change of files. This is fault 43.
func TestPollingEnds(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	for limit, reason := range map[userlimits.Limit]string{
		userlimits.InotifyInstances: noInstances, userlimits.InotifyWatches: noWatches,
	} {
		v := newVolume(t, volumes.Layouts()["Atomic"])
		v.write(t, files{"a": "1"})
		userlimits.Set(t, limit, 0)
		p := newPolling(t, fileset.Config{Retry: interval}, v.dir())
		p.reports(t, reason)
		userlimits.Set(t, limit, 1000)
		p.endsPolling(t)
		p.drain(t)
		v.write(t, files{"a": "2"})
		p.hears(t, "a change after the end of polling")
	}
}

// TestPollingWaitsForWriters: a file that was written to a moment ago may be half of something.
func TestPollingWaitsForWriters(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	userlimits.Set(t, userlimits.InotifyInstances, 0)
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	p := newPolling(t, fileset.Config{Moment: fileset.WhenClosed}, environ.Source{Kind: environ.Dir, Path: dir})
	p.reports(t, noInstances)
	if p.Writing(path) {
		t.Error("somebody writes a file that is not there")
	}
	mustWrite(t, path, "half")
	for end := time.Now().Add(timeout); !p.Writing(path); mustWrite(t, path, "half") { // The test may have been held up.
		if time.Now().After(end) {
			t.Fatal("nobody writes a file that changed a moment ago")
		}
	}
	old := time.Now().Add(-time.Minute)
	expect.NoError(t, os.Chtimes(path, old, old))
	if p.Writing(path) {
		t.Error("somebody writes a file that has not changed for a minute")
	}
}
