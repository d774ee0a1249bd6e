package update

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// The objects that a selection has.
const (
	selectionNamespace = "bench-selection"
	selectionUser      = "bench-selection"
	selectionSources   = `[{configMap: {labelSelector: {matchLabels: {bench: selected}}}}]`
	selectedBytes      = 20 << 10
	// selectionWriters are how many requests go on at once.
	selectionWriters = 8
)

// SelectionConfig says what to measure, and how often. All fields are required.
type SelectionConfig struct {
	Site *site.Site
	// Objects match the selector.
	Objects int
	// Edits are made one after the other in each of the Runs, and Burst of them within a second. Each run has a new driver.
	Runs, Edits, Burst int
	// Rest is how long a driver is left alone before its memory and its requests are looked at.
	Rest time.Duration
}

// MeasureSelection measures a volume that selects objects by label.
func MeasureSelection(ctx context.Context, cfg SelectionConfig) (_ report.Section, _ []report.Target, err error) {
	b, err := newBench(cfg.Site)
	if err != nil {
		return report.Section{}, nil, err
	}
	defer b.close()
	s := &selection{bench: b, samples: samples{}, cfg: cfg}
	if err := s.create(ctx); err != nil {
		return report.Section{}, nil, err
	}
	for run := range cfg.Runs {
		if err := s.run(ctx, run); err != nil {
			return report.Section{}, nil, err
		}
	}
	return s.section(), s.targets(), nil
}

// selection is one measurement. The first object is edited, and the others are there.
type selection struct {
	*bench
	samples

	cfg      SelectionConfig
	floor    *floor
	version  int
	driver   *driver.Driver // Of the run.
	volume   *volume
	growth   held      // Of the driver's memory by the volume.
	files    int64     // Of the volume, in memory.
	requests int       // At rest.
	writes   []float64 // For the burst of each run.
}

// Series of selections.
const (
	published = "published"
	selected  = "selected"
	bursts    = "bursts"
)

// object is the n-th one in its newest version. Each has a separate key, which is its file.
func (s *selection) object(n int) *corev1.ConfigMap {
	cm := object(selectionNamespace, "object-"+strconv.Itoa(n), s.version, selectedBytes)
	cm.Labels = map[string]string{"bench": "selected"}
	if n > 0 {
		cm.Data = map[string]string{cm.Name: cm.Data[payloadKey]}
	}
	return cm
}

func (s *selection) create(ctx context.Context) error {
	if err := s.cfg.Site.CreateNamespace(ctx, selectionNamespace); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(selectionWriters)
	for i := range s.cfg.Objects {
		group.Go(func() error {
			_, err := s.client.CoreV1().ConfigMaps(selectionNamespace).Create(ctx, s.object(i), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

func (s *selection) update(ctx context.Context, n int) error {
	_, err := s.client.CoreV1().ConfigMaps(selectionNamespace).Update(ctx, s.object(n), metav1.UpdateOptions{})
	return err
}

func (s *selection) run(ctx context.Context, run int) (err error) {
	s.begin(published, bareWatch, selected, bursts)
	if s.driver, err = driver.StartAs(ctx, s.cfg.Site, selectionUser); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.driver.Close()) }()
	pod := driver.PodWith(selectionNamespace, map[string]string{"sources": selectionSources})
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	sent := time.Now()
	if err := s.driver.PublishAll(ctx, pod); err != nil {
		return err
	}
	s.put(published, time.Since(sent))
	if run == 0 { // The others would find the same.
		if err := s.rest(ctx, pod, before); err != nil {
			return err
		}
	}
	if s.volume, err = s.eyes.watch(s.driver.Target(pod, pod.Spec.Volumes[0].Name)); err != nil {
		return err
	}
	if err := s.edits(ctx); err != nil {
		return err
	}
	return s.burst(ctx)
}

// edits makes edits one after the other beside the bare watch, which a burst would be too much for on a busy machine.
func (s *selection) edits(ctx context.Context) (err error) {
	s.floor, err = newFloorOf(ctx, s.client, selectionNamespace, metav1.ListOptions{LabelSelector: "bench=selected"})
	if err != nil {
		return err
	}
	defer s.floor.close()
	for range s.cfg.Edits {
		if err := s.edit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rest leaves the driver alone, and looks.
func (s *selection) rest(ctx context.Context, pod *corev1.Pod, before held) error {
	if err := site.Rest(ctx, settle); err != nil {
		return err
	}
	begin := time.Now()
	if err := site.Rest(ctx, s.cfg.Rest); err != nil {
		return err
	}
	requests, err := s.cfg.Site.Requests(begin)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if r.User == selectionUser && r.Stage == cluster.StageReceived && r.Verb != "watch" {
			s.requests++
		}
	}
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	s.growth = held{after.anonymous - before.anonymous, after.heap - before.heap}
	s.files, err = s.driver.Files(pod)
	return err
}

// held is what the driver has in memory: all that is anonymous, and the part of it that is allocated.
type held struct{ anonymous, heap int64 }

func (s *selection) memory(ctx context.Context) (held, error) {
	memory, err := proc.MemoryOf(s.driver.PID())
	if err != nil {
		return held{}, err
	}
	heap, err := s.driver.Metric(ctx, "go_memstats_heap_alloc_bytes")
	return held{memory.Anonymous, int64(heap)}, err
}

// edit makes one edit and waits until it is in the files.
func (s *selection) edit(ctx context.Context) error {
	if err := site.Rest(ctx, settle); err != nil {
		return err
	}
	s.version++
	watched, seen := s.floor.expect("object-0", s.version), s.eyes.expect(s.volume, s.version)
	sent := time.Now()
	if err := s.update(ctx, 0); err != nil {
		return err
	}
	for key, one := range map[string]<-chan sighting{bareWatch: watched, selected: seen} {
		at, err := receive(ctx, one, patience)
		if err != nil {
			return fmt.Errorf("an edit of one of %d selected objects: %w", s.cfg.Objects, err)
		}
		s.put(key, at.Sub(sent))
	}
	return nil
}

// burst edits many of the objects within a second, and the first one at the end.
func (s *selection) burst(ctx context.Context) error {
	before, err := s.written(ctx)
	if err != nil {
		return err
	}
	s.version++
	seen := s.eyes.expect(s.volume, s.version)
	sent := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range s.cfg.Burst - 1 {
		group.Go(func() error {
			if err := site.Rest(groupCtx, time.Duration(i)*time.Second/time.Duration(s.cfg.Burst)); err != nil {
				return err
			}
			return s.update(groupCtx, 1+i)
		})
	}
	if err := errors.Join(group.Wait(), s.update(ctx, 0)); err != nil {
		return err
	}
	s.put(bursts, time.Since(sent))
	if _, err := receive(ctx, seen, patience); err != nil {
		return err
	}
	if err := site.Rest(ctx, settle); err != nil { // A sync is counted after its files are there.
		return err
	}
	after, err := s.written(ctx)
	s.writes = append(s.writes, after-before)
	return err
}

func (s *selection) written(ctx context.Context) (float64, error) {
	return s.driver.Metric(ctx, "liveconfig_syncs_total", `result="written"`)
}
