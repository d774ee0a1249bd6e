// Package update measures how long an edit of a ConfigMap takes until its new bytes can be read in volumes: those of the
// driver, those of the kubelet, and, as the floor that no volume can be below, a watch that does nothing.
//
// It does not know how the driver works.
package update

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/turn"
)

// Config says what to measure, and how often. All fields are required.
type Config struct {
	Site *site.Site
	// FanOuts are the numbers of volumes of one object, from the smallest on.
	FanOuts []int
	// Edits of 1 KiB are made of each fan-out in each of the Runs, and a third as many of the larger sizes: a target is about
	// a fan-out of 1 with 1 KiB at its 99th percentile, and about the others by their medians.
	Runs, Edits int
}

// KubeletConfig says the same for the kubelet's own volumes.
type KubeletConfig struct {
	Site *site.Site
	// Turn is had while edits are made, and not while the kubelet is waited for.
	Turn *turn.Turn
	// Pods have a volume of each kind, in each of the Runs others. Each gives one sample of the kubelet by itself, at a random
	// moment of the run's Spread, and Bumped of them one of the annotation first.
	Runs, Pods, Bumped int
	Spread             time.Duration
}

// settle is how far apart edits of one object are at least: longer than replaced files stay, which is not time that readers
// wait.
const settle = 300 * time.Millisecond

// patience is far more than an update takes.
const patience = 30 * time.Second

// Measure measures one object with more and more volumes. It returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b, err := newBench(cfg.Site)
	if err != nil {
		return report.Section{}, nil, err
	}
	defer b.close()
	shared := &writer{client: b.client, namespace: site.CrowdNamespace, name: site.CrowdObject, version: 1}
	f := &fans{bench: b, cfg: cfg, writer: shared}
	defer f.close()
	if err := f.measure(ctx); err != nil {
		return report.Section{}, nil, err
	}
	groups, targets := f.results()
	return report.Section{
		Key:   "update",
		Title: "Update latency",
		Text: "From the moment before a request that edits a ConfigMap is sent, until its new bytes were read from a volume, in the " +
			"path by which the node has it. The volumes are those of running pods of a real kubelet.\n\nThe floor is a bare watch of " +
			"the object in the benchmark's process: it decodes the event and does nothing.",
		Groups: groups,
		Charts: f.charts(),
		Notes:  notes(),
	}, targets, nil
}

// MeasureKubelet measures pods that have a volume of the driver's and one of the kubelet's of the same object.
func MeasureKubelet(ctx context.Context, cfg KubeletConfig) (report.Section, []report.Target, error) {
	b, err := newBench(cfg.Site)
	if err != nil {
		return report.Section{}, nil, err
	}
	defer b.close()
	both := &both{bench: b, samples: samples{}, cfg: cfg}
	defer both.close()
	if err := both.measure(ctx); err != nil {
		return report.Section{}, nil, err
	}
	group, target := both.results()
	return report.Section{
		Key:   "kubelet",
		Title: "Update latency, beside the kubelet's own volumes",
		Text: "Each pod has two volumes of a separate ConfigMap: the driver's, and the `configMap` volume that the kubelet has built in, with the " +
			"kubelet's defaults. The time is from the moment before a request that edits the ConfigMap is sent, until its new bytes were read " +
			"from the volume. In the last two rows the pod is annotated when that request is answered, which makes the kubelet look after it.",
		Groups: []report.Group{group},
		Notes: []string{
			"The kubelet by itself looks after each pod every 60 to 90 seconds, so its figures are about that, and hardly depend on " +
				"the machine or the size. Edits are at random moments. A run's edits are made when those of the one before are in the " +
				"driver's volumes; what of them only waits for the kubelet goes on meanwhile, in other pods.",
			"With the annotation, an edit takes a second request for each pod, by somebody who may change pods, and knows which.",
		},
	}, []report.Target{target}, nil
}

// bench is what both measurements need.
type bench struct {
	client kubernetes.Interface // Direct, as the kubelet's.
	eyes   *eyes
}

func newBench(s *site.Site) (*bench, error) {
	client, err := s.Fast()
	if err != nil {
		return nil, err
	}
	e, err := newEyes()
	return &bench{client: client, eyes: e}, err
}

func (b *bench) close() { _ = b.eyes.close() } // It was only read.

func notes() []string {
	return []string{
		"All runs on one machine: the API server, etcd without fsync, the kubelet, the driver and the benchmark share its processors. " +
			"An API server across a network adds the same to the floor and to the volumes.",
		"Pods reach the API server through a forwarder in the benchmark's process, as they would through a service. The floor does " +
			"not, nor does the kubelet: that counts against the driver. «Bare watch, by the pods' way» is the floor with the forwarder.",
		fmt.Sprintf("Edits of one object are at least %s apart. The driver keeps replaced files for readers who are on the way into them, "+
			"and large ones that are replaced sooner wait for those.", settle),
		fmt.Sprintf("The driver tells each pod of an update by an Event, %d at once for a volume and then one a minute. Edits that are "+
			"further apart, as most are, have the API server and the driver busy with those as well: the row of edits that pods are notified of "+
			"has the first ones of new volumes, and the others what comes after.", firstEdits),
		"Equal volumes share their files: one rename shows all of them the new ones. Their moment is when the new bytes were read from one, " +
			"and then the benchmark reads each of the others through its own mount, and waits until each has them.",
		"1 MiB is 1 KiB less, since the API server counts the whole object.",
	}
}

func receive(ctx context.Context, seen <-chan sighting, within time.Duration) (time.Time, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case s := <-seen:
		return s.at, s.err
	case <-timer.C:
		return time.Time{}, fmt.Errorf("nothing was seen for %s", within)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// receiveAll waits for all moments. An error begins with the number of the one that is missing.
func receiveAll(ctx context.Context, seen []<-chan sighting) ([]time.Time, error) {
	all := make([]time.Time, 0, len(seen))
	for i, one := range seen {
		at, err := receive(ctx, one, patience)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
		all = append(all, at)
	}
	return all, nil
}
