package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakeimages"
	"github.com/liveconfig-csi/liveconfig/test/kit/install"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// session starts the cluster, runs the shell in it, removes the cluster and returns the shell's
// exit status. The logs of a cluster that could not start stay until the next sandbox starts.
func session(ctx context.Context, cfg config) (code int, err error) {
	logs, err := workdir.New("lc-sandbox-")
	if err != nil {
		return 0, err
	}
	s, err := start(ctx, cfg, filepath.Join(logs.Path(), "logs"))
	switch {
	case err != nil && ctx.Err() != nil: // The error follows from the signal.
		return 0, errors.Join(context.Cause(ctx), logs.Remove())
	case err != nil:
		return 0, fmt.Errorf("%w\nthe logs of all programs are in %s until the next sandbox starts", err, logs.Path())
	}
	defer func() {
		begin := time.Now()
		err = errors.Join(err, s.Stop(), logs.Remove())
		s.Say("the cluster is removed after %s", time.Since(begin).Round(time.Millisecond))
	}()
	env, err := s.Environ(cfg.plugin, filepath.Join(cfg.repo, "bin", "node"))
	if err != nil {
		return 0, err
	}
	return newShell(s, cfg.command).run(ctx, env)
}

// start returns a cluster with everything that the examples need.
func start(ctx context.Context, cfg config, logs string) (*install.Installation, error) {
	s, err := install.Start(ctx, install.Config{
		Runtime: realnode.Containerd2(), Repo: cfg.repo, LogDir: logs, Output: os.Stderr, Box: cfg.box, Image: cfg.image,
	})
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.InstallController(ctx) })
	group.Go(func() error { return importExamples(ctx, s) })
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// importExamples gives the node the images of the examples.
func importExamples(ctx context.Context, s *install.Installation) error {
	begin := time.Now()
	images, err := fakeimages.For(filepath.Join(s.Repo(), "examples"))
	if err != nil {
		return err
	}
	if err := s.ImportStandIns(ctx, images...); err != nil {
		return fmt.Errorf("give the node the images of the examples: %w", err)
	}
	s.Say("the images of the examples are there after %s", time.Since(begin).Round(time.Millisecond))
	return nil
}
