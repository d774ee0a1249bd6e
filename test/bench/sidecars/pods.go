package sidecars

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// stopTimeout is far more than a sidecar takes to end.
const stopTimeout = 30 * time.Second

// The processes of a pod, by what they are.
const (
	ofOurs   = "liveconfig-reload"
	ofLister = "lister"
	ofPoller = "poller"
)

// pod is the processes of a pod in both ways, with a program for each way.
type pod struct {
	processes    map[string]*process.Process
	ours, theirs *program
}

func (p *pod) close() error {
	var errs []error
	for _, one := range p.processes {
		errs = append(errs, one.Stop(stopTimeout))
	}
	for _, one := range []*program{p.ours, p.theirs} {
		if one != nil {
			errs = append(errs, one.close())
		}
	}
	return errors.Join(errs...)
}

// build builds the processes of pods as they are shipped.
func (b *bench) build(ctx context.Context) error {
	for _, program := range []struct{ dir, path, to string }{
		{b.cfg.Site.Repo(), "./cmd/liveconfig-reload", b.binary(ofOurs)},
		{filepath.Join(b.cfg.Site.Repo(), "test", "bench"), "./lister", b.binary(ofLister)},
		{filepath.Join(b.cfg.Site.Repo(), "test", "bench"), "./poller", b.binary(ofPoller)},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program.to, program.path)
		cmd.Dir, cmd.Env = program.dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", program.path, err, out)
		}
	}
	return nil
}

func (b *bench) binary(name string) string { return filepath.Join(b.cfg.Site.Dir(), name) }

// connect starts the driver, and makes the way by which the listers reach the API server.
func (b *bench) connect(ctx context.Context) (err error) {
	server := b.cfg.Site.AdminConfig().Host
	for _, link := range []**network.Link{&b.oursLink, &b.theirsLink} {
		if *link, err = network.ListenAt(ctx, "127.0.0.1:0", server); err != nil {
			return err
		}
	}
	if b.driver, err = driver.StartOver(ctx, b.cfg.Site, b.oursLink); err != nil {
		return err
	}
	if err := b.cfg.Site.WriteUserKubeconfig(b.kubeconfig(), "bench-sidecar", "system:masters"); err != nil {
		return err
	}
	return b.theirsLink.Kubeconfig(b.kubeconfig(), b.kubeconfig())
}

func (b *bench) kubeconfig() string { return filepath.Join(b.cfg.Site.Dir(), "sidecar.kubeconfig") }

// startPod returns when both programs of a new pod have their files.
func (b *bench) startPod(ctx context.Context) error {
	dir := filepath.Join(b.driver.Dir(), "sidecars-"+strconv.Itoa(len(b.pods)))
	theirs := filepath.Join(dir, "files")
	if err := os.MkdirAll(theirs, 0o700); err != nil {
		return err
	}
	published := driver.PodWith(namespace, map[string]string{"sources": sources})
	if err := b.driver.PublishAll(ctx, published); err != nil {
		return err
	}
	p := &pod{processes: map[string]*process.Process{}}
	b.pods, b.published = append(b.pods, p), published
	ours := b.driver.Target(published, published.Spec.Volumes[0].Name)
	var err error
	if p.ours, err = startProgram(ctx, ours); err != nil {
		return err
	}
	if p.theirs, err = startProgram(ctx, theirs); err != nil {
		return err
	}
	for _, one := range []struct {
		name string
		args []string
		then func(context.Context) error
	}{
		{ofOurs, []string{"--watch=" + ours, "--http=POST " + p.ours.url, "--listen=127.0.0.1:0"}, nil},
		{ofLister, []string{
			"--kubeconfig=" + b.kubeconfig(), "--namespace=" + namespace, "--label=" + selector, "--dir=" + theirs,
		}, p.theirs.awaitFile},
		{ofPoller, []string{"--dir=" + theirs, "--post=" + p.theirs.url}, nil},
	} {
		p.processes[one.name], err = process.Start(context.WithoutCancel(ctx), process.Config{
			Path: b.binary(one.name), Args: one.args, LogFile: filepath.Join(dir, one.name+".log"),
		})
		if err != nil {
			return err
		}
		if one.then == nil {
			continue
		}
		if err := one.then(ctx); err != nil {
			return fmt.Errorf("%s: %w; its log ends with:\n%s", one.name, err, process.Tail(filepath.Join(dir, one.name+".log"), 2048))
		}
	}
	return nil
}

// awaitFile returns when the program could read the file.
func (p *program) awaitFile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ticker := time.NewTicker(lookInterval); ; {
		_, err := p.read()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

// look adds what the processes of each pod have in memory, and the driver's share of one.
func (b *bench) look() error {
	for _, p := range b.pods {
		for name, one := range p.processes {
			memory, err := proc.MemoryOf(one.PID())
			if err != nil {
				return err
			}
			b.resident[name] = append(b.resident[name], memory.Resident)
		}
	}
	memory, err := proc.MemoryOf(b.driver.PID())
	if err != nil {
		return err
	}
	files, err := b.driver.Files(b.published) // Those of all volumes: they are equal, and share them.
	if err != nil {
		return err
	}
	b.share = (memory.Resident + files) / int64(len(b.pods))
	return nil
}
