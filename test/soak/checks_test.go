package soak

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

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
	least, most, volumes := 0, 0, 0
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
	for _, p := range r.pods {
		for _, v := range p.volumes {
			if v.state == live {
				volumes++
			}
		}
	}
	r.mu.Unlock()
	got, err := r.metric("liveconfig_watches")
	if err == nil && (int(got) < least || int(got) > most) {
		err = fmt.Errorf("there are %v, want %d to %d", got, least, most)
	}
	known, volumesErr := r.metric("liveconfig_volumes")
	if volumesErr == nil && int(known) != volumes {
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
	must(r.t, err)
	news := data[min(r.logged, int64(len(data))):]
	r.logged = int64(len(data))
	for _, word := range []string{"panic", "DATA RACE", "fatal error", codes.ResourceExhausted.String()} {
		if at := bytes.Index(news, []byte(word)); at >= 0 {
			const around = 4000
			r.failf("the driver's log has %q:\n%s", word, news[max(0, at-around/8):min(len(news), at+around)])
		}
	}
}
