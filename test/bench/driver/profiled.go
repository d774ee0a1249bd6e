package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

const (
	// hook is laid over the driver's source, as one file more.
	hook    = "test/bench/profile/hook/hook.go"
	hookTag = "liveconfig_profiled"
	// profileTimeout is many times what it takes to write one.
	profileTimeout = time.Minute
	lookInterval   = 20 * time.Millisecond
)

// Profiled is a driver that reports where its time and its memory goes. It is the one that is shipped with one file more.
type Profiled struct {
	*Driver

	dir string // Of its profiles.
}

// StartProfiled is [StartAs] with a driver that can be profiled. It takes note of one allocation in so many bytes, and of none
// if that is zero. The profiles stay in a directory that must be there.
func StartProfiled(ctx context.Context, s *site.Site, user, dir string, bytes int) (*Profiled, error) {
	overlay := filepath.Join(s.Dir(), "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(s.Repo(), "cmd/liveconfig-driver/profiled.go"): filepath.Join(s.Repo(), hook)},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return nil, err
	}
	p := program{
		name: "liveconfig-driver-profiled", buildFlags: []string{"-overlay=" + overlay, "-tags=" + hookTag},
		launcher: []string{"/usr/bin/env", "LIVECONFIG_PROFILES=" + dir, fmt.Sprintf("GODEBUG=memprofilerate=%d", bytes)},
	}
	d, err := start(ctx, s, p, func(path string) error { return s.WriteUserKubeconfig(path, user, "system:masters") })
	return &Profiled{Driver: d, dir: dir}, err
}

// CPU takes a profile of the processor while work is done, and returns its file.
func (p *Profiled) CPU(ctx context.Context, work func(context.Context) error) (string, error) {
	if err := unix.Kill(p.PID(), unix.SIGUSR1); err != nil {
		return "", fmt.Errorf("begin a profile: %w", err)
	}
	if err := work(ctx); err != nil {
		return "", err
	}
	return p.profile(ctx, unix.SIGUSR1, "cpu")
}

// Memory looks at the memory and returns the files: what is in the heap and was allocated, what goroutines wait for, and what
// Go says of its memory.
func (p *Profiled) Memory(ctx context.Context) (heap, goroutines, stats string, err error) {
	heap, err = p.profile(ctx, unix.SIGUSR2, "heap") // The last to be complete.
	return heap, filepath.Join(p.dir, "goroutines"), filepath.Join(p.dir, "stats"), err
}

// profile sends a signal and waits for a file.
func (p *Profiled) profile(ctx context.Context, signal unix.Signal, name string) (string, error) {
	path := filepath.Join(p.dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := unix.Kill(p.PID(), signal); err != nil {
		return "", fmt.Errorf("ask for a profile: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if err := cmp.Or(p.Alive(), site.Rest(ctx, lookInterval)); err != nil {
			return "", fmt.Errorf("wait for the profile %s: %w", name, err)
		}
	}
}
