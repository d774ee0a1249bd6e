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
	samples

	fanOut  int
	payload payload
	// filesBytes is what the files of all volumes take in memory; known of the largest size.
	filesBytes int64
}

// moments are when one edit was where.
type moments struct {
	sent, answered, watched, linked time.Time
	read                            []time.Time // By volume.
}

// row is a series of a cell: what each edit took.
type row struct {
	key, name string
	took      func(moments) []time.Duration
}

// fromSent are the rows of an edit from the moment it was sent.
func fromSent() []row {
	return []row{
		{"floor", "bare watch (floor)", func(m moments) []time.Duration { return since(m.sent, m.watched) }},
		{"floor-by-link", "bare watch, by the pods' way", func(m moments) []time.Duration { return since(m.sent, m.linked) }},
		{"answer", "the API server's answer", func(m moments) []time.Duration { return since(m.sent, m.answered) }},
		{"first", "liveconfig, first volume", func(m moments) []time.Duration { return since(m.sent, m.first()) }},
		{"every", "liveconfig, every volume", func(m moments) []time.Duration { return since(m.sent, m.read...) }},
		{"last", "liveconfig, last volume", func(m moments) []time.Duration { return since(m.sent, m.last()) }},
	}
}

// fromElsewhere are the rows from later moments. The last one is for the growth, and not shown.
func fromElsewhere() []row {
	return []row{
		{"after-answer", "liveconfig, from the API server's answer", func(m moments) []time.Duration { return since(m.answered, m.read...) }},
		{"behind-floor", "liveconfig, behind the bare watch", func(m moments) []time.Duration { return since(m.watched, m.read...) }},
		{"beyond", "", func(m moments) []time.Duration { return since(m.watched, m.last()) }},
	}
}

func (m moments) first() time.Time { return slices.MinFunc(m.read, time.Time.Compare) }
func (m moments) last() time.Time  { return slices.MaxFunc(m.read, time.Time.Compare) }

func since(from time.Time, to ...time.Time) []time.Duration {
	all := make([]time.Duration, 0, len(to))
	for _, at := range to {
		all = append(all, at.Sub(from))
	}
	return all
}

// begin begins a run of all rows.
func (c *cell) begin() {
	for _, r := range slices.Concat(fromSent(), fromElsewhere()) {
		c.samples.begin(r.key)
	}
}

// add adds an edit to the last run.
func (c *cell) add(m moments) {
	for _, r := range slices.Concat(fromSent(), fromElsewhere()) {
		c.put(r.key, r.took(m)...)
	}
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
			c := &cell{samples: samples{}, fanOut: fanOut, payload: p}
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

func (f *fans) fill(ctx context.Context, c *cell) error {
	warm := &cell{samples: samples{}, payload: c.payload}
	first := warmUps
	if c.payload == payloads()[0] {
		first = firstEdits
	}
	if err := f.run(ctx, warm, first); err != nil {
		return err
	}
	if c.payload == payloads()[0] {
		c.samples["told"] = warm.samples["last"]
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
		c.series("floor", "").Typical(), c.series("last", "").Typical())
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

func (f *fans) run(ctx context.Context, c *cell, edits int) error {
	c.begin()
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
	watching := []<-chan sighting{f.direct.expect(f.writer.name, version), f.byLink.expect(f.writer.name, version)}
	seen := f.eyes.expectAll(f.volumes, version)
	runtime.GC() // Else its work falls into what is measured.
	sent := time.Now()
	if err := f.writer.send(ctx, next); err != nil {
		return err
	}
	answered := time.Now()
	watched, err := receiveAll(ctx, watching)
	if err != nil {
		return fmt.Errorf("bare watch %w", err)
	}
	read, err := receiveAll(ctx, seen)
	if err != nil {
		return fmt.Errorf("volume %w", err)
	}
	c.add(moments{sent, answered, watched[0], watched[1], read})
	return site.Rest(ctx, settle)
}
