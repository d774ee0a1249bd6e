// Package idle measures what the driver does while nothing changes.
//
// It does not know how the driver works.
package idle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// Config says what to measure. All fields are required.
type Config struct {
	Site *site.Site
	// Volumes are how many there are while nothing happens, in each of the Runs for the time of Quiet.
	Volumes int
	Runs    int
	Quiet   time.Duration
}

const (
	namespace = "bench-idle"
	// ownUser is whom the API server takes the benchmark's own driver for.
	ownUser = "bench-driver"
	// settle is for what comes after a start.
	settle = 5 * time.Second
)

// subject is somebody who is watched doing nothing.
type subject struct {
	key, name string
	user      string
	pid       int
	work      []proc.Work // By run.
	watches   int         // That were opened meanwhile.
	others    int         // Other requests.
	open      int         // Watches that are open.
}

// Measure returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b := &bench{cfg: cfg}
	defer func() {
		if b.own != nil {
			err = errors.Join(err, b.own.Close())
		}
	}()
	if err := b.start(ctx); err != nil {
		return report.Section{}, nil, err
	}
	if err := b.watch(ctx); err != nil {
		return report.Section{}, nil, err
	}
	return b.section(), b.targets(), nil
}

// bench is one measurement.
type bench struct {
	cfg      Config
	own      *driver.Driver
	subjects []*subject // The driver in a container is the first, the own one the second.
	tokens   int        // That the kubelet has asked for meanwhile.
	// Requests that the drivers should not have made.
	unexpected []cluster.Request
}

func (b *bench) start(ctx context.Context) error {
	if _, err := b.cfg.Site.Crowd(ctx, b.cfg.Volumes); err != nil {
		return err
	}
	pids, err := b.cfg.Site.Processes("liveconfig-driver")
	if err != nil {
		return err
	}
	if len(pids) != 1 {
		return fmt.Errorf("there are %d drivers in containers, want one", len(pids))
	}
	if err := b.startOwn(ctx); err != nil {
		return err
	}
	b.subjects = []*subject{
		{
			key: "node", name: "on the node, one object in all volumes, the kubelet calls", pid: pids[0],
			user: driver.User(),
		},
		{key: "own", name: "by itself, an object for each volume, nobody calls", pid: b.own.PID(), user: ownUser},
	}
	return nil
}

// startOwn starts a driver that nobody calls, with an object for each volume.
func (b *bench) startOwn(ctx context.Context) (err error) {
	if err := b.cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	if b.own, err = driver.StartAs(ctx, b.cfg.Site, ownUser); err != nil {
		return err
	}
	for i := range b.cfg.Volumes {
		name := "object-" + strconv.Itoa(i)
		if err := b.cfg.Site.CreateConfigMaps(ctx, namespace, "value", name); err != nil {
			return err
		}
		if err := b.own.PublishAll(ctx, driver.Pod(namespace, name)); err != nil {
			return err
		}
	}
	return nil
}

// watch looks before and after each quiet time.
func (b *bench) watch(ctx context.Context) error {
	if err := site.Rest(ctx, settle); err != nil {
		return err
	}
	begin := time.Now()
	for range b.cfg.Runs {
		if err := b.watchOnce(ctx); err != nil {
			return err
		}
	}
	return b.count(begin)
}

func (b *bench) watchOnce(ctx context.Context) error {
	before := make([]proc.Work, len(b.subjects))
	for i, s := range b.subjects {
		var err error
		if before[i], err = proc.WorkOf(s.pid); err != nil {
			return err
		}
	}
	if err := site.Rest(ctx, b.cfg.Quiet); err != nil {
		return err
	}
	for i, s := range b.subjects {
		after, err := proc.WorkOf(s.pid)
		if err != nil {
			return err
		}
		s.work = append(s.work, after.Since(before[i]))
	}
	return nil
}

func (b *bench) count(begin time.Time) error {
	requests, err := b.cfg.Site.Requests(time.Time{})
	if err != nil {
		return err
	}
	open := map[string]string{} // The users of open watches, by the requests' IDs.
	for _, r := range requests {
		if r.Verb == "watch" && r.Stage == cluster.StageStarted {
			open[r.ID] = r.User
		}
		if r.Stage == cluster.StageComplete {
			delete(open, r.ID)
		}
		if r.Stage != cluster.StageReceived || r.Time.Before(begin) {
			continue
		}
		if r.User == "system:node:"+realnode.NodeName && r.Subresource == "token" {
			b.tokens++
		}
		b.countFor(r)
	}
	for _, user := range open {
		for _, s := range b.subjects {
			if s.user == user {
				s.open++
			}
		}
	}
	return nil
}

func (b *bench) countFor(r cluster.Request) {
	for _, s := range b.subjects {
		switch {
		case s.user != r.User:
		case r.Verb == "watch":
			s.watches++
		default:
			s.others++
			b.unexpected = append(b.unexpected, r)
		}
	}
}
