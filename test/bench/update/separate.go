package update

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

const separateNamespace = "bench-separate"

// SeparateConfig says what to measure, and how often. All fields are required.
type SeparateConfig struct {
	Site *site.Site
	// Volumes is how many there are of each kind.
	Volumes int
	// Edits are made of each kind in each of the Runs.
	Runs, Edits int
}

// MeasureSeparate measures volumes of one object that cannot share their files: some have modes of their own, and those of a
// released object may each get another content. The benchmark is the controller that exposes and takes back candidates.
func MeasureSeparate(ctx context.Context, cfg SeparateConfig) (_ report.Section, _ []report.Target, err error) {
	b, err := newBench(cfg.Site)
	if err != nil {
		return report.Section{}, nil, err
	}
	defer b.close()
	s := &separate{bench: b, samples: samples{}, cfg: cfg}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.start(ctx); err != nil {
		return report.Section{}, nil, err
	}
	for range cfg.Runs {
		if err := s.run(ctx); err != nil {
			return report.Section{}, nil, err
		}
	}
	group, targets := s.results()
	return report.Section{
		Key:   "separate",
		Title: "Update latency of volumes that cannot share their files",
		Text: "Each volume has a file system of its own: those of one ConfigMap have different modes, and those of the other one are of a " +
			"released ConfigMap. From the moment before the request that edits the one, or that shows the candidate of the other one to " +
			"all pods, or takes it back, until the last volume has the new bytes.",
		Groups: []report.Group{group},
		Notes: []string{
			"The driver is a process of the benchmark's, and the pods are not real. The benchmark writes the exposure into the stable copy, as " +
				"the controller does.",
			"With --share-volumes=false all volumes are like those with different modes.",
		},
	}, targets, nil
}

// separate measures volumes that cannot share their files.
type separate struct {
	*bench
	samples

	cfg        SeparateConfig
	driver     *driver.Driver
	floor      *floor
	plain, web *writer
	ofPlain    []*volume // With different modes.
	ofWeb      []*volume
	stable     *corev1.ConfigMap // Of the released object, which is web.
}

// Series, by what is done.
const (
	bareWatch = "floor"
	edited    = "edited"
	exposed   = "exposed"
	takenBack = "taken-back"
)

func (s *separate) close() error {
	if s.floor != nil {
		s.floor.close()
	}
	if s.driver == nil {
		return nil
	}
	return s.driver.Close()
}

func (s *separate) start(ctx context.Context) (err error) {
	if err := s.cfg.Site.CreateNamespace(ctx, separateNamespace); err != nil {
		return err
	}
	s.plain = &writer{client: s.client, namespace: separateNamespace, name: "plain"}
	s.web = &writer{client: s.client, namespace: separateNamespace, name: "web"}
	if err := s.plain.create(ctx, payloads()[0].size); err != nil {
		return err
	}
	if err := s.createReleased(ctx); err != nil {
		return err
	}
	if s.floor, err = newFloor(ctx, s.client, separateNamespace, s.plain.name); err != nil {
		return err
	}
	if s.driver, err = driver.Start(ctx, s.cfg.Site); err != nil {
		return err
	}
	for n := range s.cfg.Volumes {
		const modes = 0o200
		mode := fmt.Sprintf("%04o", 0o400+n%modes)
		if s.ofPlain, err = s.publish(ctx, s.ofPlain, map[string]string{"configMap": s.plain.name, "defaultMode": mode}); err != nil {
			return err
		}
		if s.ofWeb, err = s.publish(ctx, s.ofWeb, map[string]string{"configMap": s.web.name}); err != nil {
			return err
		}
	}
	return nil
}

func (s *separate) createReleased(ctx context.Context) error {
	s.web.version = 1
	maps := s.client.CoreV1().ConfigMaps(separateNamespace)
	stable := object(separateNamespace, s.web.name+release.Suffix, 1, payloads()[0].size)
	stable.Labels = map[string]string{release.StableLabel: release.LabelOf(s.web.name)}
	if _, err := maps.Create(ctx, s.released(1), metav1.CreateOptions{}); err != nil {
		return err
	}
	var err error
	s.stable, err = maps.Create(ctx, stable, metav1.CreateOptions{})
	return err
}

func (s *separate) released(version int) *corev1.ConfigMap {
	cm := object(separateNamespace, s.web.name, version, payloads()[0].size)
	cm.Annotations = map[string]string{release.Annotation: "{}"}
	return cm
}

func (s *separate) publish(ctx context.Context, all []*volume, attributes map[string]string) ([]*volume, error) {
	pod := driver.Pod(separateNamespace, "")
	pod.Spec.Volumes[0].CSI.VolumeAttributes = attributes
	if err := s.driver.PublishAll(ctx, pod); err != nil {
		return nil, err
	}
	v, err := s.eyes.watch(s.driver.Target(pod, pod.Spec.Volumes[0].Name))
	return append(all, v), err
}

// run makes the edits of one run. What is compared takes turns.
func (s *separate) run(ctx context.Context) error {
	s.begin(bareWatch, edited, exposed, takenBack)
	for range s.cfg.Edits {
		if err := s.edit(ctx); err != nil {
			return fmt.Errorf("edit what %d volumes have: %w", len(s.ofPlain), err)
		}
		if err := s.release(ctx); err != nil {
			return fmt.Errorf("release what %d volumes have: %w", len(s.ofWeb), err)
		}
	}
	p50 := func(key string) string {
		return report.Latencies(key, "", s.samples[key][len(s.samples[key])-1:]).Typical()
	}
	s.cfg.Site.Say("%d volumes that cannot share: edited %s, shown a candidate %s, taken back %s at p50", len(s.ofPlain), p50(edited), p50(exposed), p50(takenBack))
	return nil
}

// edit edits the object that nobody has released.
func (s *separate) edit(ctx context.Context) error {
	next := s.plain.next(payloads()[0].size)
	watched := s.floor.expect(s.plain.name, s.plain.version)
	sent, last, err := s.until(ctx, s.ofPlain, s.plain.version, func() error { return s.plain.send(ctx, next) })
	if err != nil {
		return err
	}
	at, err := receive(ctx, watched, patience)
	if err != nil {
		return err
	}
	s.put(bareWatch, at.Sub(sent))
	s.put(edited, last.Sub(sent))
	return nil
}

// release makes a candidate, shows it to all pods, and takes it back. The content that comes back is a newer version too.
func (s *separate) release(ctx context.Context) error {
	s.web.version++
	candidate := s.released(s.web.version)
	if err := s.web.send(ctx, candidate); err != nil {
		return err
	}
	digest := release.Digest(map[string][]byte{payloadKey: []byte(candidate.Data[payloadKey])})
	if err := s.show(ctx, exposed, release.Exposure{Digest: digest, Threshold: 1, State: release.Progressing}); err != nil {
		return err
	}
	s.stable.Data = s.web.next(payloads()[0].size).Data
	return s.show(ctx, takenBack, release.Exposure{Digest: digest, State: release.Reverted})
}

// show writes an exposure and waits until the volumes have the newest version.
func (s *separate) show(ctx context.Context, key string, e release.Exposure) error {
	if err := site.Rest(ctx, settle); err != nil { // Until the driver knows what was written before.
		return err
	}
	sent, last, err := s.until(ctx, s.ofWeb, s.web.version, func() error { return s.expose(ctx, e) })
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	s.put(key, last.Sub(sent))
	return nil
}

func (s *separate) expose(ctx context.Context, e release.Exposure) (err error) {
	s.stable.Annotations = map[string]string{release.ExposureAnnotation: e.String()}
	s.stable, err = s.client.CoreV1().ConfigMaps(separateNamespace).Update(ctx, s.stable, metav1.UpdateOptions{})
	return err
}

// until returns when a request was sent, and when the last volume had a version.
func (s *separate) until(ctx context.Context, volumes []*volume, version int, send func() error) (sent, last time.Time, err error) {
	seen := s.eyes.expectAll(volumes, version)
	sent = time.Now()
	if err := send(); err != nil {
		return sent, last, err
	}
	all, err := receiveAll(ctx, seen)
	if err != nil {
		return sent, last, fmt.Errorf("volume %w", err)
	}
	return sent, slices.MaxFunc(all, time.Time.Compare), nil
}

func (s *separate) results() (report.Group, []report.Target) {
	floor := s.series(bareWatch, "bare watch of the edited ConfigMap (floor)")
	edit := s.series(edited, "liveconfig, edited, last volume")
	shown := s.series(exposed, "liveconfig, candidate shown to all, last volume")
	back := s.series(takenBack, "liveconfig, candidate taken back, last volume")
	group := report.Group{
		Key: "separate", Title: fmt.Sprintf("One ConfigMap of 1 KiB in %d volumes that cannot share", s.cfg.Volumes), Floor: bareWatch,
		Series: []report.Series{floor, edit, shown, back},
	}
	what := fmt.Sprintf("update, %d volumes with different modes, 1 KiB: last volume to bare watch, p50", s.cfg.Volumes)
	const milliseconds = 1e6
	const ofAsMany = "a node to an edit of as many volumes, p50"
	return group, []report.Target{
		{Key: "update-separate", What: what, Value: edit.Ratio(floor, 50), Bound: 2.5},
		{Key: "release-exposed", What: "release: a candidate shown to all pods of " + ofAsMany, Value: shown.Ratio(edit, 50), Bound: 1.3},
		{Key: "release-taken-back", What: "release: a candidate taken back from all pods of " + ofAsMany, Value: back.Ratio(edit, 50), Bound: 1.3},
		{
			Key: "release-exposed-p99", What: "release: a candidate shown to all pods of a node, p99",
			Value: float64(shown.Percentile(99)) / milliseconds, Bound: 100, Unit: "ms",
		},
	}
}
