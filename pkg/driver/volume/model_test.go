package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// modelVolume is a volume of the model, of one object with one key.
type modelVolume struct {
	record   state.Record
	ref      api.Ref
	optional bool
	live     bool
	files    map[string]string // What must be seen while it is live.
}

// model is what must be true of a node after everything that has been done to it.
type model struct {
	*node
	driver  *driver
	rand    *rand.Rand
	volumes []*modelVolume
	objects map[api.Ref]string // The values of those that exist.
	steps   []string           // For messages.
}

func newModel(n *node, seed uint64) *model {
	m := &model{
		node: n, driver: n.start(), rand: rand.New(rand.NewPCG(seed, 0)), objects: map[api.Ref]string{},
		steps: []string{fmt.Sprintf("seed %d", seed)},
	}
	m.volumes = []*modelVolume{
		{ref: web, record: n.request("keep", configMap("web"))},
		{ref: web, record: n.request("replace", configMap("web", api.KeyUpdatePolicy, string(api.UpdateReplace)))},
		{ref: web, record: n.request("optional", configMap("web", api.KeyOptional, "true")), optional: true},
		{ref: tls, record: n.request("secret", map[string]string{api.KeySecret: "tls"})},
		{ref: web, record: n.request("keep-too", configMap("web"))},
		{ref: web, record: n.request("replace-too", configMap("web", api.KeyUpdatePolicy, string(api.UpdateReplace)))},
	}
	return m
}

func (m *model) step() {
	steps := []struct {
		name string
		do   func(*modelVolume)
	}{
		{"publish", m.doPublish},
		{"publish", m.doPublish},
		{"unpublish", m.doUnpublish},
		{"change", m.doChange},
		{"change", m.doChange},
		{"delete", m.doDelete},
		{"restart", m.doRestart},
		{"miss a change", m.doMiss},
		{"fail to write", m.doFailToWrite},
		{"fail to record", m.doFailToRecord},
	}
	s, v := steps[m.rand.IntN(len(steps))], m.volumes[m.rand.IntN(len(m.volumes))]
	m.steps = append(m.steps, s.name+" "+v.record.VolumeID)
	s.do(v)
	pass(settling)
}

func (m *model) doPublish(v *modelVolume) {
	err := m.driver.Publish(m.ctx, v.record, access.Token{})
	_, exists := m.objects[v.ref]
	switch {
	case v.live, exists, v.optional:
		if err != nil {
			m.Errorf("Publish(%s) = %v, want nil", v.record.VolumeID, err)
		}
		v.live = true
	default:
		m.wantKind(err, volume.Missing)
	}
	m.update()
}

func (m *model) doUnpublish(v *modelVolume) {
	m.driver.unpublish(v.record)
	v.live = false
}

func (m *model) doChange(v *modelVolume) {
	m.objects[v.ref] = strconv.Itoa(len(m.steps))
	m.cluster.set(v.ref, "a", m.objects[v.ref])
	m.update()
}

func (m *model) doDelete(v *modelVolume) {
	delete(m.objects, v.ref)
	m.cluster.remove(v.ref)
	m.update()
}

func (m *model) doRestart(*modelVolume) { m.driver = m.driver.restart() }

// doMiss changes an object while no driver runs.
func (m *model) doMiss(v *modelVolume) {
	m.driver.stop()
	m.doChange(v)
	m.driver = m.start()
}

// doFailToWrite changes an object while no live volume can be written.
func (m *model) doFailToWrite(v *modelVolume) {
	m.faults.set("open", syscall.EIO)
	m.doChange(v)
	pass(settling)
	m.faults.set("open", nil)
	pass(2 * settling)
}

// doFailToRecord publishes while no record can be written, of which a live volume takes no notice.
func (m *model) doFailToRecord(v *modelVolume) {
	m.faults.set("put", syscall.ENOSPC)
	defer m.faults.set("put", nil)
	err := m.driver.Publish(m.ctx, v.record, access.Token{})
	if (err == nil) != v.live {
		m.Errorf("Publish(%s) = %v, want an error: %t", v.record.VolumeID, err, !v.live)
	}
}

func (m *model) update() {
	for _, v := range m.volumes {
		value, exists := m.objects[v.ref]
		switch {
		case !v.live:
		case exists:
			v.files = map[string]string{"a": value}
		case v.optional:
			v.files = map[string]string{}
		}
	}
}

func (m *model) check() {
	users, records, live := map[api.Ref]int{}, []state.Record{}, 0
	counted := map[string]bool{}
	for _, v := range m.volumes {
		if !v.live {
			m.wantFiles(v.record, nil)
			continue
		}
		m.wantFiles(v.record, v.files)
		if shape := fmt.Sprint(v.record.Attributes); !m.shares || !counted[shape] {
			counted[shape] = true
			users[v.ref]++
		}
		live++
		records = append(records, v.record)
	}
	m.wantRecords(records...)
	wantSame(m.node, "users of sources", users, m.cluster.users())
	wantSame(m.node, "Volumes()", live, m.driver.Volumes())
	if m.Failed() {
		m.Fatalf("after %v", m.steps)
	}
}

// TestRandomLives does 60 things at random to a node, and compares it with the model after each.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		bubbleCase(t, strconv.FormatUint(seed, 10), func(n *node) {
			m := newModel(n, seed)
			for range 60 {
				m.step()
				m.check()
			}
			for _, v := range m.volumes {
				m.doUnpublish(v)
			}
			m.wantNothing(m.driver)
		})
	}
}

// TestEverythingAtOnce does all that may be done at the same time, for the race detector. In the end nothing may be left,
// and until then nothing may be wrong but that calls for one volume keep each other off.
func TestEverythingAtOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "0")
		d := n.start()
		var requests []state.Record
		for i := range 4 {
			requests = append(requests, n.request(fmt.Sprintf("v%d", i), configMap("web", api.KeyUpdatePolicy, string(api.UpdateReplace))))
		}
		errs := make(chan error, 1000)
		calls := []func(state.Record) error{
			func(r state.Record) error { return d.Publish(n.ctx, r, access.Token{}) },
			func(r state.Record) error { return d.Publish(n.ctx, r, access.Token{}) },
			func(r state.Record) error { return d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) },
			func(r state.Record) error { _, err := d.Condition(r.VolumeID, r.TargetPath); return err },
			func(state.Record) error { d.Volumes(); d.Changed(keyOf(web)); return nil },
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 0))
				for j := range 50 {
					if err := calls[random.IntN(len(calls))](requests[random.IntN(len(requests))]); err != nil {
						errs <- err
					}
					if i == 0 {
						n.cluster.set(web, "a", strconv.Itoa(j))
					}
					<-time.After(time.Duration(random.IntN(5)) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			var e *volume.Error
			if !errors.As(err, &e) || (e.Kind != volume.Busy && e.Kind != volume.Unknown) {
				n.Errorf("got error %v, want Busy or Unknown ones only", err)
			}
		}
		pass(settling)
		wantSame(n, "failed, want 0: no sync may meet an unmounted volume", 0, n.seen.results()[volume.ResultFailed])
		for _, r := range requests {
			d.publish(r)
			pass(settling)
			n.wantFiles(r, map[string]string{"a": "49"})
		}
	})
}

// TestReasonsThatWarn: news is none to worry about.
func TestReasonsThatWarn(t *testing.T) {
	t.Parallel()
	for reason, want := range map[volume.Reason]bool{
		"WaitingForSource": true, "Projected": false, "SourceMissing": true, "AccessLost": true, "ProjectionFailed": true,
	} {
		if got := reason.Warns(); got != want {
			t.Errorf("%s.Warns() = %t, want %t", reason, got, want)
		}
	}
}
