package soak

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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
	must(r.t, r.bench.Node.Kill())
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
	must(r.t, err)
	r.log.note("  %s", v)
	r.mu.Lock()
	defer r.mu.Unlock()
	v.record = how
}

// loseState removes everything that the driver keeps.
func (r *run) loseState() {
	entries, err := os.ReadDir(r.bench.Node.StateDir())
	must(r.t, err)
	for _, entry := range entries {
		must(r.t, os.RemoveAll(filepath.Join(r.bench.Node.StateDir(), entry.Name())))
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
	must(r.t, r.bench.Cluster.StartAPIServer(r.t.Context()))
	r.upset(func() { r.apiUp = true })
}

func (r *run) spoil(how string) {
	r.upset(func() { r.linkIs = how })
	switch how {
	case "cut":
		must(r.t, r.link.Cut())
	case "frozen":
		r.link.Freeze()
	default:
		const delay = 150
		r.link.Slow(time.Duration(r.rand.IntN(delay)) * time.Millisecond)
	}
}

func (r *run) heal() {
	r.upset()
	must(r.t, r.link.Heal())
	r.upset(func() { r.linkIs = "" })
}
