package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
)

// comes waits until a file is there.
func comes(t *testing.T, path string) {
	t.Helper()
	expect.Eventually(t, programs.Patience, func() error {
		_, err := os.Lstat(path)
		return err
	})
}

// goes waits until a file is gone.
func goes(t *testing.T, path string) {
	t.Helper()
	expect.Eventually(t, programs.Patience, func() error {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the file is there: %w", err)
		}
		return nil
	})
}

// TestReadyFile: the file is there while the command runs, and gone from the moment in which the command is asked to end.
func TestReadyFile(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ready")
			p, dir := startIn(t, arrange, []string{"--on-change=restart", "--ready-file=" + path}, "show", "A")
			p.isServing(t, "A=1")
			comes(t, path)
			write(t, dir, "A", "2")
			p.restarts(t, "A=2")
			comes(t, path)
			p.terminates(t)
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the end the file is there: %v", err)
			}
		})
	}
}

// TestReadyFileGoesFirst: a command that takes its time to end has no file meanwhile, no matter what asked it to end.
func TestReadyFileGoesFirst(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*testing.T, process, string){
		"a change": func(t *testing.T, _ process, dir string) { t.Helper(); write(t, dir, "A", "2") },
		"others":   func(t *testing.T, p process, _ string) { t.Helper(); p.Sends(t, unix.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ready")
			p, dir := startIn(t, asFirst, []string{"--on-change=restart", "--grace=1h", "--ready-file", path}, "deaf", "A")
			p.Prints(t, "ready A=1")
			comes(t, path)
			ask(t, p, dir)
			goes(t, path)
			p.Sends(t, unix.SIGINT)
			if name == "others" {
				p.Ends(t, "", 12)
			}
		})
	}
}

// TestReadyFileComesLater: what a container before has left is gone before the command starts, and the file does not come
// before its time.
func TestReadyFileComesLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ready")
	expect.NoError(t, os.WriteFile(path, nil, 0o600))
	p, dir := startIn(t, asFirst, []string{"--on-change=restart", "--ready-file=" + path + ",after=1h"}, "show", "A")
	p.isServing(t, "A=1")
	write(t, dir, "A", "2")
	p.restarts(t, "A=2")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there before its time: %v", err)
	}
	p.terminates(t)
}

// TestReadyFileAfterATime comes by itself, some time after the command was started.
func TestReadyFileAfterATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ready")
	p, _ := startIn(t, asFirst, []string{"--on-change=exit", "--ready-file=" + path + ",after=50ms"}, "show", "A")
	p.isServing(t, "A=1")
	comes(t, path)
	p.terminates(t)
}

// TestARestartNamesTheLivenessProbe once, where no file of the command's helps the probe.
func TestARestartNamesTheLivenessProbe(t *testing.T) {
	t.Parallel()
	const note = "a liveness probe that fails meanwhile"
	p, dir := startIn(t, asFirst, []string{"--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	for _, value := range []string{"2", "3"} {
		write(t, dir, "A", value)
		p.restarts(t, "A="+value)
	}
	p.terminates(t)
	if got := strings.Count(p.Stderr.String(), note); got != 1 {
		t.Errorf("the log has the line %d times, want once:\n%s", got, p.Stderr)
	}

	path := filepath.Join(t.TempDir(), "ready")
	p, dir = startIn(t, asFirst, []string{"--on-change=restart", "--ready-file=" + path}, "show", "A")
	p.isServing(t, "A=1")
	write(t, dir, "A", "2")
	p.restarts(t, "A=2")
	p.terminates(t)
	if strings.Contains(p.Stderr.String(), note) {
		t.Errorf("the log has the line beside --ready-file:\n%s", p.Stderr)
	}
}
