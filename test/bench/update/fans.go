package update

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// warmUps are made before each cell, and counted by themselves: the first of a size makes buffers grow. firstEdits are as many
// as the driver tells each pod of at once, which come before the cells of new volumes.
const (
	warmUps    = 3
	firstEdits = 10
)

// fans measures one object with more and more volumes.
type fans struct {
	*bench

	cfg     Config
	writer  *writer
	volumes []*volume
	direct  *floor
	byLink  *floor
	cells   []*cell
}

// cell is one fan-out with one size.
type cell struct {
	fanOut  int
	payload payload
	direct  [][]int64 // By run, as all below.
	byLink  [][]int64
	answer  [][]int64
	first   [][]int64
	every   [][]int64
	last    [][]int64
	after   [][]int64 // Every volume after the answer.
	behind  [][]int64 // Every volume after the floor.
	beyond  [][]int64 // The last volume after the floor.
	told    [][]int64 // The last volume, in the first edits of new volumes: one run.

	// filesBytes is what the files of all volumes take in memory; known of the largest size.
	filesBytes int64
}

// runs returns all of a cell's series.
func (c *cell) runs() []*[][]int64 {
	return []*[][]int64{&c.direct, &c.byLink, &c.answer, &c.first, &c.every, &c.last, &c.after, &c.behind, &c.beyond}
}

func (f *fans) close() {
	for _, w := range []*floor{f.direct, f.byLink} {
		if w != nil {
			w.close()
		}
	}
}

func (f *fans) measure(ctx context.Context) error {
	if err := f.openFloors(ctx); err != nil {
		return err
	}
	for _, fanOut := range f.cfg.FanOuts {
		if err := f.grow(ctx, fanOut); err != nil {
			return fmt.Errorf("start %d pods: %w", fanOut, err)
		}
		for _, p := range payloads() {
			c := &cell{fanOut: fanOut, payload: p}
			if err := f.fill(ctx, c); err != nil {
				return fmt.Errorf("update %d volumes with %s: %w", fanOut, p.name, err)
			}
			f.cells = append(f.cells, c)
		}
	}
	return nil
}

// openFloors opens a watch as the kubelet does, and one as the driver's container has to.
func (f *fans) openFloors(ctx context.Context) (err error) {
	if f.direct, err = newFloor(ctx, f.client, site.CrowdNamespace, f.writer.name); err != nil {
		return err
	}
	config := rest.CopyConfig(f.cfg.Site.FastConfig())
	config.Host = "https://" + cluster.ServiceIP
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	f.byLink, err = newFloor(ctx, client, site.CrowdNamespace, f.writer.name)
	return err
}

// grow starts pods until there are so many.
func (f *fans) grow(ctx context.Context, n int) error {
	begin := time.Now()
	pods, err := f.cfg.Site.Crowd(ctx, n)
	if err != nil {
		return err
	}
	for _, pod := range pods[len(f.volumes):] {
		v, err := f.eyes.watch(f.cfg.Site.OursDir(pod))
		if err != nil {
			return err
		}
		f.volumes = append(f.volumes, v)
	}
	f.cfg.Site.Say("%d pods run after %s", n, time.Since(begin).Round(time.Millisecond))
	return nil
}

// fill makes all edits of a cell.
func (f *fans) fill(ctx context.Context, c *cell) error {
	warm := &cell{payload: c.payload}
	first := warmUps
	if c.payload == payloads()[0] {
		first = firstEdits
	}
	if err := f.run(ctx, warm, first); err != nil {
		return err
	}
	if c.payload == payloads()[0] {
		c.told = warm.last
	}
	for range f.cfg.Runs {
		if err := f.run(ctx, c, f.edits(c.payload)); err != nil {
			return err
		}
	}
	if c.payload == payloads()[2] {
		if err := f.weigh(ctx, c); err != nil {
			return err
		}
	}
	f.cfg.Site.Say("%d volumes, %s: floor %s, last volume %s at p50", c.fanOut, c.payload.name,
		c.series("", "", c.direct).format(), c.series("", "", c.last).format())
	return nil
}

// weigh looks how much memory the files take when those that were replaced are gone.
func (f *fans) weigh(ctx context.Context, c *cell) error {
	const untilTidied = 2 * time.Second
	if err := site.Rest(ctx, untilTidied); err != nil {
		return err
	}
	bySystem := map[unix.Fsid]int64{}
	for _, v := range f.volumes {
		var s unix.Statfs_t
		if err := unix.Statfs(v.dir, &s); err != nil {
			return &os.PathError{Op: "statfs", Path: v.dir, Err: err}
		}
		bySystem[s.Fsid] = int64(s.Blocks-s.Bfree) * s.Bsize //nolint:gosec // Some MiB.
	}
	for _, used := range bySystem {
		c.filesBytes += used
	}
	return nil
}

// run makes the edits of one run.
func (f *fans) run(ctx context.Context, c *cell, edits int) error {
	for _, runs := range c.runs() {
		*runs = append(*runs, nil)
	}
	for range edits {
		if err := f.edit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// edits is how many are made of a size in each run.
func (f *fans) edits(p payload) int {
	if p == payloads()[0] {
		return f.cfg.Edits
	}
	return max(f.cfg.Edits/3, 1)
}

// edit makes one edit, waits until all have seen it, and adds it to the last run of the cell.
func (f *fans) edit(ctx context.Context, c *cell) error {
	next := f.writer.next(c.payload.size)
	version := f.writer.version
	direct, byLink := f.direct.expect(f.writer.name, version), f.byLink.expect(f.writer.name, version)
	seen := make([]<-chan sighting, 0, len(f.volumes))
	for _, v := range f.volumes {
		seen = append(seen, f.eyes.expect(v, version))
	}
	runtime.GC() // Else its work falls into what is measured.
	sent := time.Now()
	if err := f.writer.send(ctx, next); err != nil {
		return err
	}
	answered := time.Now()
	watched, err := receive(ctx, direct, patience)
	if err != nil {
		return err
	}
	linked, err := receive(ctx, byLink, patience)
	if err != nil {
		return err
	}
	read := make([]time.Time, 0, len(seen))
	for i, s := range seen {
		at, err := receive(ctx, s, patience)
		if err != nil {
			return fmt.Errorf("volume %d: %w", i, err)
		}
		read = append(read, at)
	}
	c.add(moments{sent, answered, watched, linked, read})
	return site.Rest(ctx, settle)
}

// moments are when one edit was where.
type moments struct {
	sent, answered, watched, linked time.Time
	read                            []time.Time // By volume.
}

func (c *cell) add(m moments) {
	run := len(c.last) - 1
	put := func(runs [][]int64, from, to time.Time) { runs[run] = append(runs[run], to.Sub(from).Nanoseconds()) }
	put(c.direct, m.sent, m.watched)
	put(c.byLink, m.sent, m.linked)
	put(c.answer, m.sent, m.answered)
	put(c.first, m.sent, slices.MinFunc(m.read, time.Time.Compare))
	put(c.last, m.sent, slices.MaxFunc(m.read, time.Time.Compare))
	put(c.beyond, m.watched, slices.MaxFunc(m.read, time.Time.Compare))
	for _, at := range m.read {
		put(c.every, m.sent, at)
		put(c.after, m.answered, at)
		put(c.behind, m.watched, at)
	}
}

// duration is a series of durations.
type duration struct{ report.Series }

func (*cell) series(key, name string, runs [][]int64) duration {
	return duration{report.Series{Key: key, Name: name, Unit: report.Nanoseconds, Runs: runs}}
}

// format returns the median.
func (d duration) format() string { return d.Unit.Format(float64(d.Percentile(50))) }
