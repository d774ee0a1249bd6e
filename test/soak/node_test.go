package soak

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// upset remembers that the driver may need time, and what else has become of its surroundings.
func (r *run) upset(how ...func()) {
	r.conditions.Lock()
	defer r.conditions.Unlock()
	r.isUpset, r.upsetAt = true, time.Now()
	for _, change := range how {
		change()
	}
}

// isWell reports whether nothing stands between the driver and what it needs, and nothing has since the last rest.
func (r *run) isWell() bool {
	r.conditions.Lock()
	defer r.conditions.Unlock()
	return r.driverUp && r.apiUp && r.linkIs == "" && !r.isUpset
}

// hasLongBeenWell reports whether the driver has had time to notice which pods may not read.
func (r *run) hasLongBeenWell() bool {
	r.conditions.Lock()
	defer r.conditions.Unlock()
	return time.Since(r.upsetAt) > noticeAfter
}

func (r *run) nodeSteps() []step {
	up := r.driverUp
	hasLive := len(r.allVolumes(isLive)) > 0
	return []step{
		{"kill the driver", 1, up, r.killDriver},
		{"stop the driver", 1, up, r.stopDriver},
		{"kill and start the driver", 2, up, func() { r.killDriver(); r.startDriver() }},
		{"stop and start the driver", 2, up, func() { r.stopDriver(); r.startDriver() }},
		{"start the driver", 20, !up, r.startDriver},
		{"lose a record", 1, hasLive, func() { r.damage(r.some(r.allVolumes(isLive), 1)[0], lost) }},
		{"tear a record", 1, hasLive, func() { r.damage(r.some(r.allVolumes(isLive), 1)[0], torn) }},
		{"lose the state directory", 1, true, r.loseState},
	}
}

func (r *run) killDriver() {
	r.upset()
	expect.NoError(r.t, r.bench.Node.Kill())
	r.upset(func() { r.driverUp = false })
}

func (r *run) stopDriver() {
	r.upset()
	if err := r.bench.Node.StopDriver(); err != nil {
		r.failf("stop the driver: %v", err)
	}
	r.upset(func() { r.driverUp = false })
}

// startDriver starts the driver. It knows the volumes that it finds whole records of.
func (r *run) startDriver() {
	r.upset()
	r.mu.Lock()
	for _, p := range r.pods {
		for _, v := range p.volumes {
			v.known = v.known && v.record == whole
		}
	}
	for _, o := range r.objects {
		o.unwatched = false
	}
	r.mu.Unlock()
	if err := r.bench.Node.StartDriver(r.t.Context()); err != nil {
		r.failf("start the driver: %v", err)
		r.t.FailNow()
	}
	r.upset(func() { r.driverUp = true })
}

// fileOf is the name of a volume's file in the driver's directories.
func (v *vol) fileOf() string { return fmt.Sprintf("%x.json", sha256.Sum256([]byte(v.id))) }

// damage tears or removes the record of a volume.
func (r *run) damage(v *vol, how record) {
	path := filepath.Join(r.bench.Node.StateDir(), "volumes", v.fileOf())
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if v.record == whole {
			r.failf("the live volume %s has no record", v)
		}
		return
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil && how == torn {
		err = os.WriteFile(path, data[:len(data)/2], 0o600)
	}
	expect.NoError(r.t, err)
	r.log.note("  %s", v)
	r.mu.Lock()
	defer r.mu.Unlock()
	v.record = how
}

// loseState removes everything that the driver keeps.
func (r *run) loseState() {
	entries, err := os.ReadDir(r.bench.Node.StateDir())
	expect.NoError(r.t, err)
	for _, entry := range entries {
		expect.NoError(r.t, os.RemoveAll(filepath.Join(r.bench.Node.StateDir(), entry.Name())))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		for _, v := range p.volumes {
			v.record = lost
		}
	}
}

func (r *run) serverSteps() []step {
	up, link := r.apiUp, r.linkIs
	return []step{
		{"stop the API server", 1, up && r.longEnough(), func() { r.endServer(r.bench.Cluster.StopAPIServer) }},
		{"kill the API server", 1, up && r.longEnough(), func() { r.endServer(r.bench.Cluster.KillAPIServer) }},
		{"start the API server", 15, !up, r.startServer},
		{"cut the link", 1, link != "cut", func() { r.spoil("cut") }},
		{"freeze the link", 1, link != "frozen", func() { r.spoil("frozen") }},
		{"slow the link", 1, link == "", func() { r.spoil("slow") }},
		{"heal the link", 8, link != "", r.heal},
	}
}

// longEnough reports whether the API server may be ended again: a start takes seconds, in which little can be done.
func (r *run) longEnough() bool { return r.rests > 2 && r.rand.IntN(3) == 0 }

func (r *run) endServer(end func() error) {
	r.upset()
	// One that waits for what is frozen on its way to clients has to be killed in the end.
	if err := end(); err != nil && !errors.Is(err, process.ErrKilled) {
		r.t.Fatal(err)
	}
	r.upset(func() { r.apiUp = false })
}

func (r *run) startServer() {
	r.upset()
	expect.NoError(r.t, r.bench.Cluster.StartAPIServer(r.t.Context()))
	r.upset(func() { r.apiUp = true })
}

func (r *run) spoil(how string) {
	r.upset(func() { r.linkIs = how })
	switch how {
	case "cut":
		expect.NoError(r.t, r.link.Cut())
	case "frozen":
		r.link.Freeze()
	default:
		const delay = 150
		r.link.Slow(time.Duration(r.rand.IntN(delay)) * time.Millisecond)
	}
}

func (r *run) heal() {
	r.upset()
	expect.NoError(r.t, r.link.Heal())
	r.upset(func() { r.linkIs = "" })
}

// checkNode wants nothing on the node but what the live volumes need.
func (r *run) checkNode() {
	for what, check := range map[string]func() error{
		"mounts":  r.checkMounts,
		"records": func() error { return r.checkFiles("volumes", func(*vol) bool { return true }) },
		"tokens":  func() error { return r.checkFiles("tokens", r.needsToken) },
		"watches": r.checkWatches, "process": r.checkUsage,
	} {
		if err := until(fixture.Soon, check); err != nil {
			r.failf("%s at rest: %v", what, err)
		}
	}
}

func (r *run) checkMounts() error {
	want := map[string]bool{}
	for _, v := range r.allVolumes(isLive) {
		want[v.target] = true
	}
	for _, line := range environment.Mounts(r.t, r.bench.Node.KubeletDir()) {
		target := strings.Fields(line)[4]
		if !want[target] {
			return fmt.Errorf("a mount too many: %s", line)
		}
		delete(want, target)
	}
	if len(want) > 0 {
		return fmt.Errorf("no mounts at %q", slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// needsToken reports whether a source of the live volume is read by its pod. One that never updates reads nothing any more.
func (r *run) needsToken(v *vol) bool {
	return v.policy != neverPolicy && slices.ContainsFunc(v.sources, func(s source) bool {
		_, isPods := r.readerOf(v, s.ref)
		return isPods
	})
}

// checkFiles wants a file for each volume that has one and has not lost it, and no others.
func (r *run) checkFiles(dir string, has func(*vol) bool) error {
	want := map[string]bool{} // Whether it must be there.
	for _, v := range r.allVolumes(isLive) {
		if has(v) {
			want[v.fileOf()] = v.record == whole
		}
	}
	entries, err := os.ReadDir(filepath.Join(r.bench.Node.StateDir(), dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if _, found := want[entry.Name()]; !found {
			return fmt.Errorf("%s is left in %s", entry.Name(), dir)
		}
		delete(want, entry.Name())
	}
	for name, must := range want {
		if must {
			return fmt.Errorf("%s is missing in %s", name, dir)
		}
	}
	return nil
}

func (r *run) metric(name string) (float64, error) {
	text, err := r.bench.Fetch("/metrics")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(fixture.SeriesOf(text, name), 64)
}

// checkWatches wants one watch for each object and reader in use, and none for immutable objects that the driver reads.
func (r *run) checkWatches() error {
	r.mu.Lock()
	least, most := 0, 0
	for w := range r.usedLocked() {
		o := r.objects[w.ref]
		isDrivers := w.by == reader{}
		if isDrivers && o.immutable && !o.unwatched {
			continue
		}
		most++
		if !isDrivers || !o.unwatched {
			least++
		}
	}
	r.mu.Unlock()
	got, err := r.metric("liveconfig_watches")
	if err == nil && (int(got) < least || int(got) > most) {
		err = fmt.Errorf("there are %v, want %d to %d", got, least, most)
	}
	known, volumesErr := r.metric("liveconfig_volumes")
	if volumes := len(r.allVolumes(isMounted)); volumesErr == nil && int(known) != volumes {
		volumesErr = fmt.Errorf("the driver knows %v volumes, want %d", known, volumes)
	}
	return errors.Join(err, volumesErr)
}

// usage is what the driver's process takes.
type usage struct{ goroutines, files int }

func (r *run) usage() (usage, error) {
	goroutines, err := r.metric("go_goroutines")
	entries, listErr := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.bench.Node.PID()))
	return usage{int(goroutines), len(entries)}, errors.Join(err, listErr)
}

// What the process may take more than at its start: in any case, for each watch, and for each volume, into which it keeps a way.
const (
	moreGoroutines, goroutinesPerWatch = 60, 4
	moreFiles, filesPerVolume          = 30, 2
)

func (r *run) checkUsage() error {
	now, err := r.usage()
	if err != nil {
		return err
	}
	r.mu.Lock()
	watches := len(r.usedLocked())
	r.mu.Unlock()
	r.log.note("  %d goroutines and %d open files with %d watches; %d and %d at the start",
		now.goroutines, now.files, watches, r.baseline.goroutines, r.baseline.files)
	if most := r.baseline.goroutines + moreGoroutines + goroutinesPerWatch*watches; now.goroutines > most {
		return fmt.Errorf("%d goroutines with %d watches, want %d at most", now.goroutines, watches, most)
	}
	volumes := len(r.allVolumes(isLive))
	if most := r.baseline.files + moreFiles + filesPerVolume*volumes; now.files > most {
		return fmt.Errorf("%d open files with %d volumes, want %d at most", now.files, volumes, most)
	}
	return nil
}

// checkLog wants no word of a crash or a race in what the driver has written since the last time.
func (r *run) checkLog() {
	data, err := os.ReadFile(r.bench.Node.LogFile())
	expect.NoError(r.t, err)
	news := data[min(r.logged, int64(len(data))):]
	r.logged = int64(len(data))
	for _, word := range []string{"panic", "DATA RACE", "fatal error", codes.ResourceExhausted.String()} {
		if at := bytes.Index(news, []byte(word)); at >= 0 {
			const around = 4000
			r.failf("the driver's log has %q:\n%s", word, news[max(0, at-around/8):min(len(news), at+around)])
		}
	}
}
