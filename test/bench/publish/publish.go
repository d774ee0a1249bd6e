// Package publish measures how long it takes to make a volume: by the driver, asked over its socket; by bare system calls,
// as the floor; and by the kubelet, for its own volumes.
//
// It does not know how the driver works.
package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
)

// Config says what to measure, and how often. All fields are required.
type Config struct {
	Site *site.Site
	// Sequential volumes are made in each of the Runs one by one, and Batches of many at once.
	Runs, Sequential, Batches int
	// Pods are started by the kubelet, with a volume of each kind.
	Pods int
	// Volumes are the numbers of them that are published again, from the smallest on.
	Volumes []int
}

const namespace = "bench-publish"

const (
	// together is how many volumes of a batch are made at once.
	together = 16
	// inARow is how many volumes are made one by one before it is another way's turn: enough that caches are warm for most.
	inARow = 20
)

// size is one of content.
type size struct {
	name  string
	bytes int
	// cold is how many objects there are of it that nobody reads.
	cold int
}

func sizes() []size {
	// An object holds at most 1 MiB, keys included.
	return []size{{"1 KiB", 1 << 10, 6 * together}, {"1 MiB", 1<<20 - 1<<10, 3 * together}}
}

func (s size) shared() string          { return fmt.Sprintf("shared-%d", s.bytes) }
func (s size) single(n int) string     { return fmt.Sprintf("single-%d-%d", s.bytes, n%s.cold) }
func (s size) content() string         { return repeated(s.bytes) }
func (s size) group(how string) string { return fmt.Sprintf("Volumes of %s, %s", s.name, how) }

// repeated returns text of a length.
func repeated(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	return string(text)
}

// Measure returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b := &bench{cfg: cfg}
	if err := b.prepare(ctx); err != nil {
		return report.Section{}, nil, err
	}
	if b.driver, err = driver.Start(ctx, cfg.Site); err != nil {
		return report.Section{}, nil, err
	}
	defer func() { err = errors.Join(err, b.driver.Close()) }()
	section := report.Section{
		Key:   "publish",
		Title: "Publish latency",
		Text: "From a NodePublishVolume call to its answer, over the driver's socket. The driver is a process as it is shipped. A shared " +
			"object is watched already, for another volume; a cold one is not.\n\nThe floor is a volume with the same files made by " +
			"bare system calls in the benchmark's process.",
		Notes: []string{
			"The kubelet tells a sum and a number, so there is no distribution of its own work. Its time for volumes of the driver " +
				"includes the call.",
			"An empty call is NodeGetCapabilities: what gRPC itself costs, in both processes.",
		},
	}
	var targets []report.Target
	for i, s := range sizes() {
		groups, err := b.measure(ctx, s)
		if err != nil {
			return section, nil, fmt.Errorf("publish volumes of %s: %w", s.name, err)
		}
		if section.Groups = append(section.Groups, groups...); i == 0 {
			targets = targetsOf(groups[0])
		}
	}
	a, err := b.measureAgain(ctx)
	if err != nil {
		return section, nil, err
	}
	table, err := b.kubelet(ctx)
	section.Groups, section.Charts = append(section.Groups, a.group()), []report.Chart{a.chart()}
	section.Tables = []report.Table{a.table(), table}
	return section, append(targets, a.target(), a.repeat(section.Groups[0])), err
}

// targetsOf returns what was to be reached by volumes that are published one by one.
func targetsOf(g report.Group) []report.Target {
	floor := g.Series[0]
	return []report.Target{
		{
			Key: "publish-equal", What: "publish over gRPC, an equal volume is live, 1 KiB, to bare system calls of a lone one, p50",
			Value: g.Series[2].Ratio(floor, 50), Bound: 4,
		},
		{
			Key: "publish-shared", What: "publish over gRPC, object already watched, 1 KiB, to bare system calls, p50",
			Value: g.Series[3].Ratio(floor, 50), Bound: 6,
		},
	}
}

// bench is one measurement.
type bench struct {
	cfg    Config
	driver *driver.Driver
}

func (b *bench) prepare(ctx context.Context) error {
	if err := b.cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	for _, s := range sizes() {
		names := []string{s.shared()}
		for n := range s.cold {
			names = append(names, s.single(n))
		}
		if err := b.cfg.Site.CreateConfigMaps(ctx, namespace, s.content(), names...); err != nil {
			return err
		}
	}
	return nil
}

// measure makes volumes of a size in all ways.
func (b *bench) measure(ctx context.Context, s size) (_ []report.Group, err error) {
	holder := driver.Pod(namespace, s.shared()) // Has the object watched.
	if err := b.driver.PublishAll(ctx, holder); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.driver.UnpublishAll(ctx, holder)) }()
	ways := b.ways(s)
	one, many := map[string][][]int64{}, map[string][][]int64{}
	for range b.cfg.Runs {
		if err := rounds(ctx, ways, b.cfg.Sequential/inARow, inARow, oneByOne, one); err != nil {
			return nil, err
		}
		if err := rounds(ctx, ways, b.cfg.Batches, together, atOnce, many); err != nil {
			return nil, fmt.Errorf("%d at once: %w", together, err)
		}
	}
	groups := []report.Group{
		group(ways, one, fmt.Sprintf("%d-bytes", s.bytes), s.group("one by one")),
		group(ways, many, fmt.Sprintf("%d-bytes-%d-at-once", s.bytes, together), s.group(fmt.Sprintf("%d at once", together))),
	}
	series := groups[0].Series
	b.cfg.Site.Say("publish %s: floor %s, over the socket %s at p50", s.name, series[0].Typical(), series[3].Typical())
	return groups, nil
}

func group(ways []way, runs map[string][][]int64, key, title string) report.Group {
	g := report.Group{Key: key, Title: title, Floor: ways[0].key}
	for _, w := range ways {
		g.Series = append(g.Series, report.Latencies(w.key, w.name, runs[w.key]))
	}
	return g
}
