package atomicdir_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// soon is how long something may take that takes milliseconds.
const soon = 20 * time.Second

// mustEnd runs what must not wait for anybody. Pipes in its way get another end, so that the test itself ends.
func mustEnd(t *testing.T, run func(), pipes ...string) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
	}()
	select {
	case <-ended:
		return
	case <-time.After(soon):
		t.Errorf("a Write waits for the other end of a pipe in the volume")
	}
	for {
		for _, pipe := range pipes {
			if fd, err := unix.Open(pipe, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
				_ = unix.Close(fd) // An open of the other end has returned by now.
			}
		}
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestAFileBecomesAPipeAllTheTime: a container that can mount has made its volume writable, and puts a pipe in the place of
// a file and the file back, as fast as it can. No Write ever waits for it, and once it leaves off one Write puts things right.
// This is fault 30.
func TestAFileBecomesAPipeAllTheTime(t *testing.T) {
	t.Parallel()
	versions := []files{{"z": "one"}, {"z": "two"}}
	for i := range 50 { // To look at them takes long enough for z to become something else.
		versions[0][fmt.Sprint(i)], versions[1][fmt.Sprint(i)] = "same", "same"
	}
	for kind, w := range writers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, versions[0].tree(t))
			file, pipe := filepath.Join(dir, "..data", "z"), filepath.Join(t.TempDir(), "pipe")
			if kind != "Atomic" {
				file = filepath.Join(dir, "z")
			}
			dirOf{t, ""}.mkfifo(pipe)
			var over atomic.Bool
			left := make(chan struct{})
			go func() {
				defer close(left)
				for !over.Load() { // Where the file is a pipe already, it becomes a file.
					_ = unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, pipe, unix.RENAME_EXCHANGE)
				}
			}()
			until := time.Now().Add(soon / 2)
			mustEnd(t, func() {
				for i := 0; i < 500 && !t.Failed() && time.Now().Before(until); i++ {
					_, _ = w.Write(root, versions[i/100%2].tree(t)) // It may fail: what it writes is taken away under its hands.
				}
			}, file, pipe)
			over.Store(true)
			<-left
			checkHeals(t, w, dir, root, versions[0].tree(t))
		})
	}
}

// TestAFileBecomesAPipeBeforeItIsRewritten, and before what was reserved for it is given back. Neither waits, and the next
// Write puts a file there. This is fault 30.
func TestAFileBecomesAPipeBeforeItIsRewritten(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"rewritten": "write a", "reserved": "reserve a", "given back": "reserve b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			d := dirOf{t, dir}
			mustWrite(t, atomicdir.InPlace{}, root, files{"a": "1", "b": "1", "c": "1"}.tree(t))
			becomes := func(op, name string) error {
				if op+" "+name != before {
					return nil
				}
				for _, victim := range []string{"a", "b"} {
					d.remove(victim)
					d.mkfifo(victim)
				}
				if strings.HasPrefix(before, "reserve b") {
					return errInjected
				}
				return nil
			}
			mustEnd(t, func() {
				_, err := atomicdir.WithHook(atomicdir.InPlace{}, becomes).Write(root, files{"a": "22", "b": "22", "c": "22"}.tree(t))
				if err == nil || !errors.Is(err, errInjected) && !strings.Contains(err.Error(), "b: it is not a regular file") {
					t.Errorf("Write = %v, want an error that says what b is", err)
				}
			}, d.path("a"), d.path("b"))
			checkHeals(t, atomicdir.InPlace{}, dir, root, files{"a": "22", "b": "22", "c": "22"}.tree(t))
		})
	}
}

// TestAFileBecomesAPipeThatSomebodyReads: what a file would get is not written to it.
func TestAFileBecomesAPipeThatSomebodyReads(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	d := dirOf{t, dir}
	mustWrite(t, atomicdir.InPlace{}, root, files{"a": "1", "b": "1"}.tree(t))
	reader := -1
	becomes := func(op, name string) (err error) {
		if op == "write" && name == "a" {
			d.remove("b")
			d.mkfifo("b")
			reader, err = unix.Open(d.path("b"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
		}
		return err
	}
	_, err := atomicdir.WithHook(atomicdir.InPlace{}, becomes).Write(root, files{"a": "2", "b": "2"}.tree(t))
	if err == nil || !strings.Contains(err.Error(), "b: it is not a regular file") {
		t.Errorf("Write = %v, want an error that says what b is", err)
	}
	if n, err := unix.Read(reader, make([]byte, 1)); n > 0 || err != nil {
		t.Errorf("the reader of the pipe gets %d bytes, %v, want none", n, err)
	}
	expect.NoError(t, unix.Close(reader))
	checkHeals(t, atomicdir.InPlace{}, dir, root, files{"a": "2", "b": "2"}.tree(t))
}

// TestALease: the owner of a file may take a lease on it. The kernel then lets others wait up to a minute before they open the file.
// A Write does not wait. This is fault 30.
func TestALease(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, files{"a": "1"}.tree(t))
			for _, lease := range []int{unix.F_WRLCK, unix.F_RDLCK} {
				fd, err := unix.Open(filepath.Join(dir, "a"), unix.O_RDONLY, 0)
				if err == nil {
					_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, lease)
				}
				expect.NoError(t, err)
				began := time.Now()
				_, err = w.Write(root, files{"a": "2"}.tree(t))
				if took := time.Since(began); took > soon {
					t.Errorf("Write = %v after %v, although it should not wait for a lease", err, took)
				}
				if err := unix.Close(fd); err != nil { // It gives the lease back.
					t.Fatal(err)
				}
				checkHeals(t, w, dir, root, files{"a": "1"}.tree(t))
			}
		})
	}
}
