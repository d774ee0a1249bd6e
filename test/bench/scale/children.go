package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

// lifetime is how long a child may run. It ends before, with its input.
const lifetime = 15 * time.Minute

// children are processes that nodes are spread over, so that they do not wait for each other more than they must.
type children struct {
	all  []*child
	next int // The number of the next node.
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// build builds the program of the children.
func build(ctx context.Context, repo, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./scale/nodes")
	cmd.Dir, cmd.Env = filepath.Join(repo, "test", "bench"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the simulated nodes: %w\n%s", err, out)
	}
	return nil
}

// startChildren starts processes without nodes. The caller must close them.
func startChildren(ctx context.Context, binary string, n int, cfg fleet.Config) (_ *children, err error) {
	c := &children{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for range n {
		cmd := exec.CommandContext(ctx, binary, "--for="+lifetime.String(), "--way="+string(cfg.Way),
			"--kubeconfigs="+cfg.Kubeconfigs, "--namespace="+cfg.Namespace, "--own="+strconv.Itoa(cfg.Own))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return c, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return c, err
		}
		if err := cmd.Start(); err != nil {
			return c, err
		}
		c.all = append(c.all, &child{cmd: cmd, in: in, out: json.NewDecoder(out)})
	}
	return c, nil
}

func (c *children) close() error {
	var errs []error
	for _, one := range c.all {
		errs = append(errs, one.in.Close(), one.cmd.Wait())
	}
	c.all = nil
	return errors.Join(errs...)
}

// grow starts nodes in turn until there are so many, and waits until all their watches are open.
func (c *children) grow(to int, patience time.Duration) (fleet.Report, error) {
	orders := make([]fleet.Order, len(c.all))
	for ; c.next < to; c.next++ {
		o := &orders[c.next%len(orders)]
		o.Start = append(o.Start, c.next)
	}
	for i := range orders {
		orders[i].Await = patience
	}
	return c.order(orders)
}

// await returns what the nodes have seen when all their watches are open.
func (c *children) await(patience time.Duration) (fleet.Report, error) {
	return c.grow(c.next, patience)
}

// take returns what the nodes have seen.
func (c *children) take() (fleet.Report, error) { return c.order(make([]fleet.Order, len(c.all))) }

// order gives each its order, all at a time, and adds what they answer.
func (c *children) order(orders []fleet.Order) (fleet.Report, error) {
	answers := make([]fleet.Answer, len(c.all))
	var group errgroup.Group
	for i, one := range c.all {
		group.Go(func() error {
			if err := json.NewEncoder(one.in).Encode(orders[i]); err != nil {
				return err
			}
			if err := one.out.Decode(&answers[i]); err != nil {
				return fmt.Errorf("read what nodes have seen: %w", err)
			}
			if answers[i].Error != "" {
				return errors.New(answers[i].Error)
			}
			return nil
		})
	}
	err := group.Wait()
	var sum fleet.Report
	for _, a := range answers {
		sum.Sightings, sum.Requests = append(sum.Sightings, a.Sightings...), append(sum.Requests, a.Requests...)
		sum.Received, sum.Dialled = sum.Received+a.Received, sum.Dialled+a.Dialled
		sum.Open, sum.Connected = sum.Open+a.Open, sum.Connected+a.Connected
	}
	return sum, err
}

// work returns the processor time of all so far.
func (c *children) work() (time.Duration, error) {
	var sum time.Duration
	for _, one := range c.all {
		t, err := processorTime(one.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}
