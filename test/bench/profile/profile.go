// Package profile reports where the driver's time and memory go, for what targets are about.
//
// It does not know how the driver works.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

// Config says what to profile. All fields are required.
type Config struct {
	Site *site.Site
	// Volumes are how many there are.
	Volumes int
	// Edits are made of their object, and Publishes of a volume more of it. A kubelet looks after all volumes in each of the
	// Rounds.
	Edits, Publishes, Rounds int
}

const (
	namespace = "bench-profile"
	user      = "bench-profile"
	shared    = "shared"
	// updateBytes and memoryBytes are the sizes of objects that the targets are about.
	updateBytes = 1 << 10
	memoryBytes = 4 << 10
	// interval is between edits.
	interval = 150 * time.Millisecond
	// everyBytes is which allocations are noted where they are looked at.
	everyBytes = 512
)

// bench is one measurement.
type bench struct {
	cfg   Config
	dir   string // Of profiles.
	files []report.File
}

// Measure returns what it has found. None of it is a figure of the driver as it is shipped.
func Measure(ctx context.Context, cfg Config) (report.Section, []report.Target, error) {
	b := &bench{cfg: cfg, dir: filepath.Join(cfg.Site.Dir(), "profiles")}
	if err := b.prepare(ctx); err != nil {
		return report.Section{}, nil, err
	}
	if err := b.times(ctx); err != nil {
		return report.Section{}, nil, fmt.Errorf("profile the processor: %w", err)
	}
	if err := b.allocations(ctx); err != nil {
		return report.Section{}, nil, fmt.Errorf("profile what is allocated: %w", err)
	}
	if err := b.memory(ctx); err != nil {
		return report.Section{}, nil, fmt.Errorf("profile the memory: %w", err)
	}
	return report.Section{
		Key:   "profiles",
		Title: "Where it goes",
		Text: "Profiles of a driver that does what the targets are about, with the real API server, called over its socket.\n\nThe driver that " +
			"is shipped has no way to be profiled. This one is the same source with one file more, which takes the profiles.",
		Files: b.files,
		Notes: []string{
			"A profile of the processor asks a hundred times a second what each thread runs. What waits is not in it.",
			"The driver that is profiled for its memory notes nearly all allocations, so that it is larger and slower than the one that is shipped.",
		},
	}, nil, nil
}

func (b *bench) prepare(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o750); err != nil {
		return err
	}
	if err := b.cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	names := make([]string, b.cfg.Volumes)
	for i := range names {
		names[i] = single(i)
	}
	if err := b.cfg.Site.CreateConfigMaps(ctx, namespace, strings.Repeat("x", memoryBytes), names...); err != nil {
		return err
	}
	return b.cfg.Site.CreateConfigMaps(ctx, namespace, strings.Repeat("x", updateBytes), shared)
}

func single(n int) string { return "object-" + strconv.Itoa(n) }

// with runs a driver that notes one allocation in so many bytes, and has work done to it when it has its volumes.
func (b *bench) with(ctx context.Context, bytes int, object func(n int) string, work func(*driver.Profiled, []*corev1.Pod) error) error {
	d, err := driver.StartProfiled(ctx, b.cfg.Site, user, b.dir, bytes)
	if err != nil {
		return err
	}
	return b.holding(ctx, d.Driver, object, func(pods []*corev1.Pod) error { return work(d, pods) })
}

// holding gives a driver a volume of each object, has work done, and ends the driver.
func (b *bench) holding(ctx context.Context, d *driver.Driver, object func(n int) string, work func([]*corev1.Pod) error) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	var pods []*corev1.Pod
	for i := range b.cfg.Volumes {
		pod := driver.Pod(namespace, object(i))
		if err := d.PublishAll(ctx, pod); err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	return work(pods)
}

func sharedByAll(int) string { return shared }

func (b *bench) times(ctx context.Context) error {
	return b.with(ctx, 0, sharedByAll, func(d *driver.Profiled, pods []*corev1.Pod) error {
		for _, w := range b.works(d.Driver, pods) {
			path, err := d.CPU(ctx, w.do)
			if err != nil {
				return err
			}
			if err := b.add(ctx, w.key+"-processor.txt", "Processor: "+w.what, []view{
				{"by function", []string{"-top", "-nodecount=40", path}},
				{"by function with all that it calls", []string{"-top", "-cum", "-nodecount=70", path}},
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) allocations(ctx context.Context) error {
	return b.with(ctx, everyBytes, sharedByAll, func(d *driver.Profiled, pods []*corev1.Pod) error {
		for _, w := range b.works(d.Driver, pods) {
			heap, _, _, err := d.Memory(ctx)
			if err != nil {
				return err
			}
			before := heap + ".before"
			if err := os.Rename(heap, before); err != nil {
				return err
			}
			if err := w.do(ctx); err != nil {
				return err
			}
			if heap, _, _, err = d.Memory(ctx); err != nil {
				return err
			}
			if err := b.add(ctx, w.key+"-allocations.txt", "Allocated: "+w.what, []view{
				{"bytes by function", []string{"-top", "-nodecount=40", "-sample_index=alloc_space", "-base=" + before, heap}},
				{"objects by function", []string{"-top", "-nodecount=25", "-sample_index=alloc_objects", "-base=" + before, heap}},
				{"bytes by function with all that it calls", []string{"-top", "-cum", "-nodecount=60", "-sample_index=alloc_space", "-base=" + before, heap}},
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// memory looks at what is held.
func (b *bench) memory(ctx context.Context) error {
	held := fmt.Sprintf("%d volumes, each of a ConfigMap of 4 KiB of its own", b.cfg.Volumes)
	var account []byte
	err := b.with(ctx, everyBytes, single, func(d *driver.Profiled, _ []*corev1.Pod) error {
		heap, goroutines, stats, err := d.Memory(ctx)
		if err != nil {
			return err
		}
		if account, err = os.ReadFile(stats); err != nil {
			return err
		}
		if err := b.add(ctx, "memory-heap.txt", "Heap: "+held, []view{
			{"bytes in use by function", []string{"-top", "-nodecount=40", "-sample_index=inuse_space", heap}},
			{"bytes in use by function with all that it calls", []string{"-top", "-cum", "-nodecount=70", "-sample_index=inuse_space", heap}},
		}); err != nil {
			return err
		}
		return b.add(ctx, "memory-goroutines.txt", "Goroutines: "+held, []view{
			{"by function with all that it calls", []string{"-top", "-cum", "-nodecount=60", goroutines}},
		})
	})
	if err != nil {
		return err
	}
	d, err := driver.StartAs(ctx, b.cfg.Site, user)
	if err != nil {
		return err
	}
	return b.holding(ctx, d, single, func([]*corev1.Pod) error {
		text, err := process(d.PID(), string(account))
		b.files = append(b.files, report.File{Name: "memory-process.txt", Title: "Process: " + held, Text: text})
		return err
	})
}
