package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// workspace is a copy of the repository's own files, where gremlins may write, and a place for what is built.
type workspace struct {
	gremlins  string
	temporary string
	copy      string
}

func newWorkspace(ctx context.Context, o options) (*workspace, error) {
	root, err := filepath.Abs(o.repository)
	if err != nil {
		return nil, err
	}
	w := &workspace{gremlins: o.gremlins}
	if w.gremlins == "" {
		w.gremlins = filepath.Join(root, "bin/tools/gremlins")
	}
	if w.temporary, err = os.MkdirTemp("", "lc-mutation-"); err != nil {
		return nil, err
	}
	w.copy = filepath.Join(w.temporary, "repository")
	if err := w.copyFiles(ctx, root); err != nil {
		w.remove()
		return nil, fmt.Errorf("copy the repository: %w", err)
	}
	return w, nil
}

func (w *workspace) remove() { _ = os.RemoveAll(w.temporary) }

// copyFiles copies what belongs to the project's own module: gremlins copies the whole folder again for each worker, and what was
// built is large.
func (w *workspace) copyFiles(ctx context.Context, root string) error {
	list := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"go.mod", "go.sum", "cmd", "pkg", "deploy", "examples", "*.md")
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // Deleted, and not yet committed.
		}
		if err != nil {
			return err
		}
		to := filepath.Join(w.copy, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// try runs the tests of a package with each change in it, two at a time.
func (w *workspace) try(ctx context.Context, folder string, mutants []*mutant) error {
	limit, err := w.timeLimit(ctx, folder)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for i, m := range mutants {
		g.Go(func() error { return w.test(ctx, i, m, limit) })
	}
	return g.Wait()
}

// timeLimit returns how long the tests of a package may take before they count as failed: several times what they take now.
func (w *workspace) timeLimit(ctx context.Context, folder string) (time.Duration, error) {
	binary := filepath.Join(w.temporary, "unchanged.test")
	if printed, err := w.command(ctx, "go", "test", "-c", "-o", binary, "./"+folder).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, printed)
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast")
	cmd.Dir = filepath.Join(w.copy, folder)
	if printed, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("the tests fail without a change: %w: %s", err, printed)
	}
	return 4*time.Since(began) + 10*time.Second, nil
}

// test builds and runs the tests with one change, and writes down what became of it.
func (w *workspace) test(ctx context.Context, number int, m *mutant, limit time.Duration) error {
	original := filepath.Join(w.copy, m.file)
	source, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	changed, err := m.apply(source)
	if err != nil {
		return err
	}
	at := filepath.Join(w.temporary, fmt.Sprint(number))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: at + ".go"}})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{at + ".go": changed, at + ".json": overlay} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	folder := filepath.Dir(m.file)
	build := w.command(ctx, "go", "test", "-c", "-vet=off", "-overlay="+at+".json", "-o", at+".test", "./"+folder)
	if build.Run() != nil {
		m.outcome = invalid
		return ctx.Err()
	}
	defer func() { _ = os.Remove(at + ".test") }()
	cmd := exec.CommandContext(ctx, at+".test", "-test.failfast", "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(w.copy, folder)
	m.outcome = survived
	if cmd.Run() != nil {
		m.outcome = noticed
	}
	return ctx.Err()
}

func (w *workspace) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir = w.copy
	return cmd
}
