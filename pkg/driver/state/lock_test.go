package state_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// waiting is how long something may take that takes milliseconds.
const waiting = 20 * time.Second

func lockOf(dir, name string) *state.Lock {
	return state.NewLock(dir, state.Holder{Name: name, Namespace: "system", PID: 7, Node: "node-1", Version: "v1"})
}

// take takes the lock, which must be free.
func take(t *testing.T, l *state.Lock) {
	t.Helper()
	if isTaken, err := l.TryTake(); !isTaken || err != nil {
		t.Fatalf("TryTake = %t, %v, want the lock", isTaken, err)
	}
}

// wantTaken wants that another one has the lock.
func wantTaken(t *testing.T, l *state.Lock) {
	t.Helper()
	if isTaken, err := l.TryTake(); isTaken || err != nil {
		t.Fatalf("TryTake = %t, %v, want that another one has the lock", isTaken, err)
	}
}

// taking takes the lock in the background.
func taking(ctx context.Context, l *state.Lock) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- l.Take(ctx) }()
	return ended
}

func awaitTaken(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		expect.NoError(t, err)
	case <-time.After(waiting):
		t.Fatal("nobody has the lock, and it is still waited for")
	}
}

func wantWaiting(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		t.Fatalf("Take = %v, although another one has the lock", err)
	default:
	}
}

// TestOneDriverAtATime: the second one waits, knows for whom, and has the directory when the first one's end gives it back.
// This is fault 22.
func TestOneDriverAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	first, second := lockOf(dir, "driver-a"), lockOf(dir, "driver-b")
	take(t, first)
	wantTaken(t, second)
	ended := taking(t.Context(), second)
	holder := second.Holder()
	if text := holder.String(); !strings.HasPrefix(text, "system/driver-a (process 7, node node-1, version v1), since 2") {
		t.Errorf("the second waits for %s, want the first", text)
	}
	expect.NoError(t, first.Check())
	wantWaiting(t, ended)
	expect.NoError(t, first.Release())
	awaitTaken(t, ended)
	if got := first.Holder().Name; got != "driver-b" {
		t.Errorf("the holder is %q, want the second", got)
	}
	wantTaken(t, first)
	expect.NoError(t, second.Check())
}

// TestAWaitEndsWithItsContext, and the lock that it still waited for goes to the next one.
func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, third := lockOf(dir, "a"), lockOf(dir, "b"), lockOf(dir, "c")
	take(t, first)
	ctx, stop := context.WithCancel(t.Context())
	ended := taking(ctx, second)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Take = %v, want that its context has ended", err)
	}
	expect.NoError(t, first.Release())
	awaitTaken(t, taking(t.Context(), third))
}

// TestALockOutlivesASweep: somebody removes the directory, or all that is in it. The driver that has it locks it again at its
// next look, and another one that came meanwhile keeps what it has taken. This is fault 20.
func TestALockOutlivesASweep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first, second := lockOf(dir, "driver-a"), lockOf(dir, "driver-b")
	take(t, first)
	for range 3 {
		expect.NoError(t, os.RemoveAll(dir))
		expect.NoError(t, first.Check())
		wantTaken(t, second)
		if got := second.Holder().Name; got != "driver-a" {
			t.Errorf("the holder is %q, want driver-a", got)
		}
	}
	expect.NoError(t, os.RemoveAll(dir))
	third := lockOf(dir, "driver-c")
	take(t, third)
	err := first.Check()
	if !errors.Is(err, state.ErrTaken) || !strings.Contains(err.Error(), "system/driver-c (process 7") {
		t.Errorf("Check = %v, want that driver-c has the directory", err)
	}
	expect.NoError(t, third.Check())
	expect.NoError(t, first.Release())
	ended := taking(t.Context(), second)
	wantWaiting(t, ended)
	expect.NoError(t, third.Release())
	awaitTaken(t, ended)
}

// TestANameThatCannotBeWritten is no reason not to have the lock. It is written when it can be, and meanwhile nobody else's
// name is there.
func TestANameThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "holder.json")
	expect.NoError(t, os.MkdirAll(filepath.Join(name, "in the way"), 0o700))
	first, second := lockOf(dir, "a"), lockOf(dir, "b")
	take(t, first)
	if err := first.Check(); err == nil || !strings.Contains(err.Error(), "write the holder of the state directory") {
		t.Errorf("Check = %v, want that the name cannot be written", err)
	}
	wantTaken(t, second)
	if got := second.Holder().String(); got != "a driver that has not written its name" {
		t.Errorf("the holder is %s, want it unknown", got)
	}
	expect.NoError(t, os.RemoveAll(name))
	expect.NoError(t, first.Check())
	if got := second.Holder().Name; got != "a" {
		t.Errorf("the holder is %q, want a", got)
	}
}

// TestADirectoryThatCannotBeMade is an error, as for the records.
func TestADirectoryThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := lockOf(filepath.Join(file, "state"), "a").TryTake(); err == nil || !strings.Contains(err.Error(), "lock the state directory: ") {
		t.Errorf("TryTake = %v, want an error", err)
	}
}

// TestManyDriversTakeTurns: never two at a time, and each has its turn.
func TestManyDriversTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var inside, turns atomic.Int32
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 20 {
				l := lockOf(dir, "a")
				if err := l.Take(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				turns.Add(1)
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := turns.Load(); got != 120 {
		t.Errorf("%d turns, want 120", got)
	}
}
