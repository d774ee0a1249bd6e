package memory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// peer is a program that holds objects as others do.
type peer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	held    int
}

// startPeer builds the program, unless that was done, and starts it. It ends with the context, or when it is closed.
func startPeer(ctx context.Context, s *site.Site, namespace string, k kind) (*peer, error) {
	binary := filepath.Join(s.Dir(), "peer")
	if _, err := os.Stat(binary); err != nil {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./peer")
		build.Dir, build.Env = filepath.Join(s.Repo(), "test", "bench"), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the peer: %w\n%s", err, out)
		}
	}
	kubeconfig := filepath.Join(s.Dir(), "peer.kubeconfig")
	if err := s.WriteUserKubeconfig(kubeconfig, "bench-peer", "system:masters"); err != nil {
		return nil, err
	}
	p := &peer{cmd: exec.CommandContext(ctx, binary,
		"--kubeconfig="+kubeconfig, "--namespace="+namespace, "--prefix="+prefix, "--kind="+string(k))}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

func (p *peer) hold(_ context.Context, n int) error {
	p.held = n
	_, err := p.ask(n)
	return err
}

// look asks the peer last: to answer takes memory.
func (p *peer) look(context.Context) (figures, error) {
	memory, err := proc.MemoryOf(p.cmd.Process.Pid)
	if err != nil {
		return figures{}, err
	}
	f, err := p.ask(p.held)
	f.Memory = memory
	return f, err
}

// ask has the peer hold so many, and returns what it says of itself.
func (p *peer) ask(n int) (figures, error) {
	if _, err := fmt.Fprintln(p.in, n); err != nil {
		return figures{}, err
	}
	if !p.answers.Scan() {
		return figures{}, errors.Join(errors.New("the peer has ended"), p.answers.Err())
	}
	var f figures
	_, err := fmt.Sscan(p.answers.Text(), &f.heap, &f.stacks, &f.goroutines)
	return f, err
}

func (p *peer) close(context.Context) error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
