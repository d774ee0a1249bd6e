package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// fakeDrivers report the volumes of each node, or why they cannot be asked.
type fakeDrivers struct {
	mu      sync.Mutex // Guards the fields below.
	answers map[string]Answer
	asked   int
	panics  int // How many answers are panics first.
}

func (d *fakeDrivers) Ask(_ context.Context, _ string, nodes []string) map[string]Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.panics--; d.panics >= 0 {
		panic("poison")
	}
	answers := map[string]Answer{}
	for _, node := range nodes {
		answers[node] = d.answers[node]
	}
	return answers
}

func (d *fakeDrivers) set(node string, a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[node] = a
}

// reported is the volume of a pod, in which the ConfigMap web has a version.
func reported(pod, version string) statusz.Volume {
	return statusz.Volume{
		Name: "config", Pod: statusz.Pod{Namespace: "n", Name: pod, UID: pod},
		Sources: []statusz.Source{{Kind: "ConfigMap", Namespace: "n", Name: "web", Projected: &statusz.Version{ResourceVersion: version}}},
	}
}

// TestAnEditThatNoFileHas is not promoted by the time, an Event reports that after a while, and the release goes on when the driver
// reports the edit.
func TestAnEditThatNoFileHas(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]Answer{
		"the driver of node 1 cannot be asked":                {Err: errors.New("the driver of node 1 cannot be asked")},
		"its driver reports no volume with configmap/web":     {},
		`volume "config" has another version of configmap`:    {Volumes: []statusz.Volume{reported("one", "edit-1")}},
		`no volume with configmap/web`:                        {Volumes: []statusz.Volume{reported("another pod", "edit-2")}},
		`volume "config" is not current: its item is missing`: {Volumes: []statusz.Volume{withProblem(reported("one", "edit-1"))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, aPod{"one", "x", "1", false, volumes(map[string]string{"configMap": "web"})})
			drivers := &fakeDrivers{answers: map[string]Answer{"1": answer}}
			f.c.proofs.drivers = drivers
			const settings = "{steps: [1], pause: 0s}"
			f.set("web", settings, "1")
			f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
			f.set("web", settings, "2")
			f.until("it waits", func() bool { return f.exposure("web").State == release.Waiting })
			if reason := f.exposure("web").Reason; !strings.Contains(reason, name) || !strings.Contains(reason, "pod one on node 1") {
				t.Errorf("the reason is %q, want %q and the pod and its node in it", reason, name)
			}
			f.since("web", time.Now().Add(-waitingTime))
			f.until("an Event says so", func() bool { return f.count(ReasonWaiting) == 1 })
			if e := f.exposure("web"); e.State != release.Waiting || f.count(ReasonPromoted) > 0 {
				t.Errorf("the exposure is %+v, want it to wait", e)
			}
			drivers.set("1", Answer{Volumes: []statusz.Volume{reported("one", "edit-2")}})
			f.c.proofs.expire()
			f.until("it is promoted", func() bool { return f.count(ReasonPromoted) == 1 })
		})
	}
}

func withProblem(v statusz.Volume) statusz.Volume {
	v.Problem = &statusz.Problem{Kind: "Missing", Message: "its item is missing\nand more"}
	return v
}

// since moves the beginning of a step.
func (f *fixture) since(name string, at time.Time) {
	f.Helper()
	maps := f.client.CoreV1().ConfigMaps("n")
	m, err := maps.Get(f.ctx, name+release.Suffix, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	e := f.exposure(name)
	e.Since = at
	m.Annotations[release.ExposureAnnotation] = e.String()
	m.ResourceVersion += "-moved"
	if _, err := maps.Update(f.ctx, m, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// expire has all proofs be too old.
func (p *proofs) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.units {
		old := map[string]*plan.Proof{}
		for uid, proof := range of.pods {
			old[uid] = &plan.Proof{At: proof.At.Add(-time.Minute), Missing: proof.Missing}
		}
		of.pods = old
	}
}

// TestAPanicOverAReport ends neither the controller nor the release: drivers are asked again.
func TestAPanicOverAReport(t *testing.T) {
	t.Parallel()
	f := newFixture(t, aPod{"one", "x", "1", false, volumes(map[string]string{"configMap": "web"})})
	drivers := &fakeDrivers{answers: map[string]Answer{"1": {Volumes: []statusz.Volume{reported("one", "edit-2")}}}, panics: 1}
	f.c.proofs.drivers = drivers
	const settings = "{steps: [1], pause: 0s}"
	f.set("web", settings, "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
	f.set("web", settings, "2")
	f.until("it waits", func() bool { return strings.Contains(f.exposure("web").Reason, "its log has the reason") })
	f.c.proofs.expire()
	f.until("it is promoted", func() bool { return f.count(ReasonPromoted) == 1 })
}

// TestALongAnswerIsCut: it becomes a part of an annotation.
func TestALongAnswerIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, a := range []Answer{
		{Err: errors.New(long)},
		{Volumes: []statusz.Volume{{Problem: &statusz.Problem{Message: long}, Pod: statusz.Pod{UID: "u"}, Sources: []statusz.Source{{Kind: "ConfigMap", Name: "web"}}}}},
	} {
		pod := plan.Pod{UID: "u", Objects: []string{"configmap/web"}}
		got := a.missing(pod, map[string]statusz.Version{"configmap/web": {UID: "1"}})
		if got == "" || len(got) > 400 {
			t.Errorf("the reason has %d bytes", len(got))
		}
	}
}

// TestSinceWhenFilesHaveAnEdit is what the driver reports, or what it has reported before: another object of the volume may have
// changed since. The clock of the node may be another one.
func TestSinceWhenFilesHaveAnEdit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	report := now.Add(-5 * time.Hour) // By the clock of the node.
	changed := func(ago time.Duration) Answer {
		v := reported("one", "edit-2")
		v.ProjectedAt = report.Add(-ago)
		return Answer{Volumes: []statusz.Volume{v}, Now: report, Started: report.Add(-time.Hour)}
	}
	restarted := changed(0)
	restarted.Volumes[0].ProjectedAt = time.Time{}
	ahead := changed(-time.Minute)
	tests := map[string]struct {
		before *plan.Proof
		answer Answer
		want   time.Time
	}{
		"changed once":                   {nil, changed(time.Minute), now.Add(-time.Minute)},
		"not changed by this run":        {nil, restarted, now.Add(-time.Hour)},
		"changed in the future":          {nil, ahead, now},
		"known before":                   {&plan.Proof{Since: now.Add(-time.Hour)}, changed(time.Minute), now.Add(-time.Hour)},
		"not known before":               {&plan.Proof{}, changed(time.Minute), now.Add(-time.Minute)},
		"had another version before":     {&plan.Proof{Missing: "another version"}, changed(time.Minute), now.Add(-time.Minute)},
		"no answer":                      {&plan.Proof{Since: now.Add(-time.Hour)}, Answer{Err: errors.New("no answer")}, now.Add(-time.Hour)},
		"another version":                {&plan.Proof{Since: now.Add(-time.Hour)}, Answer{Volumes: []statusz.Volume{reported("one", "edit-1")}, Now: report}, time.Time{}},
		"a driver without a clock":       {nil, Answer{Volumes: []statusz.Volume{reported("one", "edit-2")}}, time.Time{}},
		"known, but not by whose report": {&plan.Proof{Since: now.Add(-time.Hour)}, Answer{Volumes: []statusz.Volume{reported("one", "edit-2")}}, now.Add(-time.Hour)},
	}
	pod := plan.Pod{UID: "one", Objects: []string{"configmap/web"}}
	wanted := map[string]statusz.Version{"configmap/web": {ResourceVersion: "edit-2"}}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.answer.proof(pod, wanted, tc.before, now); !got.Since.Equal(tc.want) || !got.At.Equal(now) {
				t.Errorf("the proof is %+v, want that the files have the edit since %s", got, tc.want)
			}
		})
	}
}
