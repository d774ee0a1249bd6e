package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is one of cmd/, compiled for one platform.
type program struct {
	name    string
	content []byte
	info    *debug.BuildInfo
}

// build compiles every program of the checkout's cmd/ for platform. The go command writes what it has to say to stderr.
func build(ctx context.Context, source string, platform v1.Platform, stderr io.Writer) (programs []program, err error) {
	dir, err := os.MkdirTemp("", "liveconfig-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The Dockerfile has the same arguments.
	args := []string{"build", "-buildvcs=true", "-trimpath", "-ldflags=-s -w", "-o", dir, "./cmd/liveconfig-..."}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // Constants, and a directory of our own.
	cmd.Dir = source
	// Nobody's settings get into the image: the same commit is the same image everywhere.
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compile for %s: %w", platform, err)
	}
	programs, err = readPrograms(dir)
	if err != nil {
		return nil, fmt.Errorf("read what was compiled: %w", err)
	}
	if !slices.ContainsFunc(programs, func(p program) bool { return "/"+p.name == entrypoint }) {
		return nil, fmt.Errorf("no folder of %s makes the program %s", filepath.Join(source, "cmd"), entrypoint)
	}
	return programs, nil
}

// readPrograms returns the programs in dir by name.
func readPrograms(dir string) ([]program, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var programs []program
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program{name: e.Name(), content: content, info: info})
	}
	return programs, nil
}

// stamp says which commit was built.
type stamp struct {
	version string
	// revision is empty outside of a git repository.
	revision string
	created  time.Time
}

// stampOf reads what the go command stamped into a program. The time is the commit's, or epoch's seconds since 1970
// unless that is empty.
func stampOf(info *debug.BuildInfo, epoch string) (stamp, error) {
	// Outside of a git repository the version is (devel). The programs then call it devel.
	s := stamp{version: strings.Trim(info.Main.Version, "()"), created: time.Unix(0, 0).UTC()}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.revision = setting.Value
		case "vcs.time":
			commit, err := time.Parse(time.RFC3339, setting.Value)
			if err != nil {
				return stamp{}, fmt.Errorf("read the commit's time: %w", err)
			}
			s.created = commit.UTC()
		}
	}
	if epoch == "" {
		return s, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return stamp{}, fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
	}
	s.created = time.Unix(seconds, 0).UTC()
	return s, nil
}
