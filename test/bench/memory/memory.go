// Package memory measures what the driver needs of it, with more and more volumes, beside programs that hold the same
// objects in other ways.
//
// It does not know how the driver works.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/turn"
)

// Config says what to measure. All fields are required.
type Config struct {
	Site *site.Site
	// Turn is had while programs are given something to do, and not while they are left alone.
	Turn *turn.Turn
	// Counts are the numbers of objects or volumes, from the smallest on.
	Counts []int
	// Runs are how many programs of each kind and count there are. All are left alone at the same time.
	Runs int
	// Unrelated are objects that nobody on the node uses, one half of them in the namespace of those that are used.
	Unrelated int
	// Rest is how long everything is left alone before it is looked at.
	Rest time.Duration
}

// The objects. Each count has a separate namespace, since an informer holds all that is in one.
const (
	namespacePrefix = "bench-memory-"
	smallNamespace  = "bench-memory-small"
	elsewhere       = "bench-memory-unrelated"
	prefix          = "object-"
	unrelatedPrefix = "unrelated-"
	objectBytes     = 1 << 10
	// small is a node as most are: volumes of 4 KiB.
	smallVolumes = 110
	smallBytes   = 4 << 10
)

// workers are how many programs are given something to do at once.
const workers = 4

func namespaceOf(count int) string { return namespacePrefix + strconv.Itoa(count) }

// Measure returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b := &bench{cfg: cfg}
	defer func() {
		err = errors.Join(err, cfg.Turn.Do(context.WithoutCancel(ctx), b.close))
	}()
	if err := cfg.Turn.Do(ctx, b.prepare); err != nil {
		return report.Section{}, nil, err
	}
	if err := b.restAndLook(ctx, b.all()); err != nil {
		return report.Section{}, nil, err
	}
	if err := cfg.Turn.Do(ctx, b.crowd); err != nil {
		return report.Section{}, nil, fmt.Errorf("make unrelated objects: %w", err)
	}
	if err := b.restAndLook(ctx, b.small); err != nil {
		return report.Section{}, nil, err
	}
	return b.section(), b.targets(), nil
}

// bench is one measurement.
type bench struct {
	cfg      Config
	subjects []*subject
	small    []*subject // Each is looked at twice: without and with unrelated objects.
	perFile  int64      // What the files of one volume take.
}

func (b *bench) all() []*subject {
	return slices.Concat(b.subjects, b.small)
}

// prepare makes the objects, and has all programs hold what they are to hold.
func (b *bench) prepare(ctx context.Context) error {
	begin := time.Now()
	for _, n := range b.cfg.Counts {
		if err := b.createObjects(ctx, namespaceOf(n), prefix, n, objectBytes); err != nil {
			return err
		}
	}
	if err := b.createObjects(ctx, smallNamespace, prefix, smallVolumes, smallBytes); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, s := range b.all() {
		group.Go(func() error {
			if err := s.hold(groupCtx, s.count); err != nil {
				return fmt.Errorf("have %s hold %d: %w", s.kind.name(), s.count, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.cfg.Site.Say("%d programs hold objects after %s", len(b.all()), time.Since(begin).Round(time.Millisecond))
	var err error
	b.perFile, err = b.filesOfAVolume()
	return err
}

func (b *bench) start(ctx context.Context) error {
	for _, k := range kinds() {
		for _, n := range b.cfg.Counts {
			if err := b.startKind(ctx, &b.subjects, k, namespaceOf(n), n); err != nil {
				return err
			}
		}
	}
	for _, k := range []kind{objects, informer} {
		if err := b.startKind(ctx, &b.small, k, smallNamespace, smallVolumes); err != nil {
			return err
		}
	}
	return nil
}

// startKind starts the programs of a kind that are to hold so many.
func (b *bench) startKind(ctx context.Context, to *[]*subject, k kind, namespace string, n int) error {
	for range k.runs(b.cfg.Runs) {
		h, err := b.startHolder(ctx, k, namespace)
		if err != nil {
			return fmt.Errorf("start %s: %w", k.name(), err)
		}
		*to = append(*to, &subject{holder: h, kind: k, count: n})
	}
	return nil
}

// restAndLook leaves programs alone, and looks at them.
func (b *bench) restAndLook(ctx context.Context, subjects []*subject) error {
	if err := site.Rest(ctx, b.cfg.Rest); err != nil {
		return err
	}
	for _, s := range subjects {
		f, err := s.look(ctx)
		if err != nil {
			return fmt.Errorf("look at %s with %d: %w", s.kind.name(), s.count, err)
		}
		s.found = append(s.found, f)
	}
	b.cfg.Site.Say("looked at the memory of %d programs", len(subjects))
	return nil
}

// crowd makes objects that nobody uses.
func (b *bench) crowd(ctx context.Context) error {
	half := b.cfg.Unrelated / 2
	if err := b.createObjects(ctx, elsewhere, unrelatedPrefix, b.cfg.Unrelated-half, smallBytes); err != nil {
		return err
	}
	return b.fill(ctx, smallNamespace, unrelatedPrefix, half, smallBytes)
}

func (b *bench) createObjects(ctx context.Context, namespace, prefix string, n, size int) error {
	if err := b.cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	return b.fill(ctx, namespace, prefix, n, size)
}

func (b *bench) fill(ctx context.Context, namespace, prefix string, n, size int) error {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return b.cfg.Site.CreateConfigMaps(ctx, namespace, strings.Repeat("x", size), names...)
}

func (b *bench) close(ctx context.Context) error {
	all := b.all()
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, s := range all {
		group.Go(func() error {
			errs[i] = s.close(ctx)
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(errs...))
}
