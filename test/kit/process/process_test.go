package process_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// start runs a shell script, and waits for the line that shows that it got as far as it wants to.
func start(t *testing.T, script string) *process.Process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	// The script writes "up" into a separate pipe, so that the test need not poll the log.
	up := filepath.Join(t.TempDir(), "up")
	if err := unix.Mkfifo(up, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Config{
		Path: "/bin/sh", Args: []string{"-c", script}, LogFile: log, Env: []string{"UP=" + up, "PATH=" + os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	line, err := os.ReadFile(up)
	if err != nil || !bytes.Equal(line, []byte("up\n")) {
		t.Fatalf("the script said %q, %v, want up", line, err)
	}
	return p
}

// wantEnd fails unless the process has ended and been waited for.
func wantEnd(t *testing.T, p *process.Process, want string) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the process has not ended after 30 s")
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the process ended with %v, want %q", err, want)
	}
}

func TestStopLetsTheChildEndInItsOwnWay(t *testing.T) {
	t.Parallel()
	p := start(t, `trap 'echo bye; exit 3' TERM; echo up >"$UP"; while :; do sleep 0.05; done`)
	if err := p.Err(); err != nil {
		t.Errorf("Err of a running process = %v, want none", err)
	}
	tries := 0
	third := func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}
	if err := p.Await(t.Context(), time.Minute, third); err != nil || tries != 3 {
		t.Errorf("Await = %v after %d tries, want none after 3", err, tries)
	}
	if err := p.Stop(30 * time.Second); err != nil {
		t.Error(err)
	}
	wantEnd(t, p, "exit status 3; its log ends with:\nbye\n")
	if err := p.Stop(time.Second); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if err := p.Await(t.Context(), time.Minute, third); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Await of a process that has ended = %v, want how it has ended", err)
	}
}

func TestStopReportsThatItHadToKill(t *testing.T) {
	t.Parallel()
	p := start(t, `trap '' TERM; echo up >"$UP"; while :; do sleep 0.05; done`)
	if err := p.Stop(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 100ms") {
		t.Errorf("error = %v, want that it was killed", err)
	}
	wantEnd(t, p, "signal: killed")
}
