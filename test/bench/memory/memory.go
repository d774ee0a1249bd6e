// Package memory measures what the driver needs of it, with more and more volumes, beside programs that hold the same
// objects in other ways.
//
// It does not know how the driver works.
package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/proc"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

// Config says what to measure. All fields are required.
type Config struct {
	Site *site.Site
	// Counts are the numbers of volumes, each of an object of its own, from the smallest on.
	Counts []int
	// Unrelated are objects that nobody on the node uses.
	Unrelated int
	// Rest is how long everything is left alone before it is looked at.
	Rest time.Duration
}

// The objects.
const (
	namespace   = "bench-memory"
	prefix      = "object-"
	objectBytes = 1 << 10
	// small is a node that is not large: volumes of 4 KiB.
	smallNamespace = "bench-memory-small"
	smallVolumes   = 110
	smallBytes     = 4 << 10
	unrelated      = "bench-memory-unrelated"
)

// figures are what there is to know of a process.
type figures struct {
	proc.Memory

	heap, stacks int64
	goroutines   int
}

// subject is a program that holds objects.
type subject struct {
	key, name string
	// hold returns when it holds so many, with its figures. Asked for as many as before, it only looks.
	hold  func(ctx context.Context, n int) (figures, error)
	close func(ctx context.Context) error
	found []figures // By the counts.
}

// Measure returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b := &bench{cfg: cfg}
	if b.client, err = cfg.Site.Fast(); err != nil {
		return report.Section{}, nil, err
	}
	for _, n := range []string{namespace, smallNamespace, unrelated} {
		if err := cfg.Site.Namespace(ctx, n); err != nil {
			return report.Section{}, nil, err
		}
	}
	defer func() {
		for _, s := range b.subjects {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if err := b.start(ctx); err != nil {
		return report.Section{}, nil, err
	}
	for _, n := range cfg.Counts {
		if err := b.grow(ctx, n); err != nil {
			return report.Section{}, nil, fmt.Errorf("hold %d objects: %w", n, err)
		}
	}
	if b.perFile, err = b.volumes.files(); err != nil {
		return report.Section{}, nil, err
	}
	targets, err := b.small(ctx)
	return b.section(), append(b.targets(), targets...), err
}

// bench is one measurement.
type bench struct {
	cfg      Config
	client   kubernetes.Interface
	subjects []*subject // The driver is the first.
	volumes  *volumes   // The driver's.
	perFile  int64      // What the files of one volume take.
	made     int        // Objects.
}

func (b *bench) start(ctx context.Context) error {
	d, err := driver.Start(ctx, b.cfg.Site)
	if err != nil {
		return err
	}
	v := &volumes{driver: d, namespace: namespace, prefix: prefix}
	b.volumes = v
	b.subjects = append(b.subjects, &subject{key: "liveconfig", name: "liveconfig, with volumes", hold: v.hold, close: v.close})
	for _, kind := range []struct{ key, name string }{
		{"reflectors", "a reflector for each object"}, {"informer", "an informer for the namespace"},
	} {
		p, err := startPeer(ctx, b.cfg.Site, kind.key)
		if err != nil {
			return err
		}
		b.subjects = append(b.subjects, &subject{
			key: kind.key, name: kind.name,
			hold:  func(_ context.Context, n int) (figures, error) { return p.hold(n) },
			close: func(context.Context) error { return p.close() },
		})
	}
	return nil
}

// grow has all subjects hold so many objects, leaves them alone, and looks.
func (b *bench) grow(ctx context.Context, n int) error {
	if err := createObjects(ctx, b.client, namespace, prefix, b.made, n, objectBytes); err != nil {
		return err
	}
	b.made = n
	for _, s := range b.subjects {
		begin := time.Now()
		if _, err := s.hold(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.cfg.Site.Say("%s: %d objects after %s", s.name, n, time.Since(begin).Round(time.Millisecond))
	}
	if err := site.Rest(ctx, b.cfg.Rest); err != nil {
		return err
	}
	for _, s := range b.subjects {
		f, err := s.hold(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.found = append(s.found, f)
	}
	return nil
}

// small measures a node with volumes as most have them, without and with objects that are none of its business.
func (b *bench) small(ctx context.Context) (_ []report.Target, err error) {
	if err := createObjects(ctx, b.client, smallNamespace, prefix, 0, smallVolumes, smallBytes); err != nil {
		return nil, err
	}
	d, err := driver.Start(ctx, b.cfg.Site)
	if err != nil {
		return nil, err
	}
	v := &volumes{driver: d, namespace: smallNamespace, prefix: prefix}
	defer func() { err = errors.Join(err, v.close(ctx)) }()
	look := func() (figures, error) {
		if _, err := v.hold(ctx, smallVolumes); err != nil {
			return figures{}, err
		}
		if err := site.Rest(ctx, b.cfg.Rest); err != nil {
			return figures{}, err
		}
		return v.hold(ctx, smallVolumes)
	}
	before, err := look()
	if err != nil {
		return nil, err
	}
	if err := createObjects(ctx, b.client, unrelated, prefix, 0, b.cfg.Unrelated, smallBytes); err != nil {
		return nil, err
	}
	after, err := look()
	what := fmt.Sprintf("memory, %d volumes of 4 KiB: ", smallVolumes)
	return []report.Target{
		{What: what + "anonymous", Value: mebibytes(before.Anonymous), Bound: 16, Unit: "MiB"},
		{What: what + "RSS", Value: mebibytes(before.Resident), Bound: 40, Unit: "MiB"},
		{
			What:  fmt.Sprintf("memory: growth by %d unrelated objects in the cluster (less than what it varies by)", b.cfg.Unrelated),
			Value: mebibytes(after.Anonymous - before.Anonymous), Bound: 1, Unit: "MiB",
		},
	}, err
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
