package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

// world does what is decided, as the controller would, and moves the clock.
type world struct {
	*testing.T
	unit    plan.Unit
	refuses bool // Whether candidates break a rule.
	seen    map[string]*plan.Seen
	missing map[string]string // What drivers report about pods, by UID: why the files do not have the edit.
	since   time.Time         // Since when the files have the edit, as drivers report.
	asked   int               // How often drivers were asked.
	reads   int               // How often pods were read.
	isAway  bool              // Whether the API server does not answer.
	log     []string
}

func newWorld(t *testing.T, pods int, annotation string, names ...string) *world {
	t.Helper()
	s, mistakes := settings.Parse(annotation)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	w := &world{T: t, unit: plan.Unit{Settings: s, Now: start, Quiet: 2 * time.Second, Reads: plan.Reads{Since: start.Add(-time.Hour)}}, seen: map[string]*plan.Seen{}}
	for i := range pods {
		w.unit.Pods = append(w.unit.Pods, plan.Pod{
			Name: fmt.Sprint("web-", i), UID: fmt.Sprint("uid-", i), Created: start.Add(-time.Hour), Changed: start.Add(-time.Hour), IsReady: true,
		})
	}
	for _, name := range names {
		w.unit.Objects = append(w.unit.Objects, plan.Object{Name: name, Candidate: "1", Stable: "1", Version: "1"})
	}
	return w
}

// newEdited returns a world whose objects have the candidate 2.
func newEdited(t *testing.T, pods int, annotation string, names ...string) *world {
	t.Helper()
	w := newWorld(t, pods, annotation, names...)
	for _, name := range names {
		w.edit(name, "2")
	}
	return w
}

// do decides and acts until there is nothing to do now; it returns when to look again.
func (w *world) do() (after time.Duration) {
	w.Helper()
	for range 100 {
		unit := w.unit
		unit.Pods = nil
		for _, p := range w.unit.Pods {
			p.Before = w.seen[p.UID]
			unit.Pods = append(unit.Pods, p)
		}
		d := plan.Decide(unit)
		if d.Action == plan.Rest || d.Action == plan.Read && w.isAway {
			w.look()
			return d.After
		}
		w.log = append(w.log, fmt.Sprintf("%s %d %s", d.Action, d.Exposure.Step, d.Exposure.State))
		if d.Action == plan.Ask {
			w.ask(d.Pods)
			continue
		}
		if d.Action == plan.Read {
			w.read()
			continue
		}
		for _, name := range d.Names {
			w.act(name, d)
		}
		w.look()
	}
	w.Fatalf("no rest after %q", w.log[:10])
	return 0
}

// ask has drivers report about pods.
func (w *world) ask(pods []plan.Pod) {
	w.asked++
	for _, p := range pods {
		for i := range w.unit.Pods {
			if w.unit.Pods[i].UID == p.UID {
				w.unit.Pods[i].Proof = &plan.Proof{At: w.unit.Now, Missing: w.missing[p.UID], Since: w.since}
			}
		}
	}
}

// read reads the pods.
func (w *world) read() { w.unit.Reads.At, w.reads = w.unit.Now, w.reads+1 }

// decide is what is decided next, after pods were read if they must be.
func (w *world) decide() plan.Decision {
	if d := plan.Decide(w.unit); d.Action != plan.Read {
		return d
	}
	w.read()
	return plan.Decide(w.unit)
}

// look remembers the pods that have a candidate.
func (w *world) look() { w.seen = plan.Look(w.unit, w.seen) }

func (w *world) act(name string, d plan.Decision) {
	for i := range w.unit.Objects {
		o := &w.unit.Objects[i]
		if o.Name != name {
			continue
		}
		switch d.Action {
		case plan.Clear:
			o.Exposure = release.Exposure{}
		case plan.Promote:
			o.Stable, o.Together, o.Exposure = o.Candidate, o.Exposure.Together(), release.Exposure{}
		case plan.Check, plan.Expose:
			o.Exposure = d.Exposure
			if d.Action == plan.Check && w.refuses {
				o.Exposure = release.Exposure{With: d.Exposure.With, State: release.Refused, Rules: d.Exposure.Rules}
			}
			o.Exposure.Digest = o.Candidate
		case plan.Rest, plan.Ask, plan.Read:
		}
	}
}

// spoilOne changes a pod that has the candidate.
func (w *world) spoilOne(spoil func(*plan.Pod)) {
	w.Helper()
	uid := plan.Exposed(w.unit)[0].UID
	for i := range w.unit.Pods {
		if w.unit.Pods[i].UID == uid {
			spoil(&w.unit.Pods[i])
		}
	}
}

func (w *world) pass(d time.Duration) *world {
	w.unit.Now = w.unit.Now.Add(d)
	return w
}

func (w *world) edit(name, candidate string) {
	for i := range w.unit.Objects {
		if o := &w.unit.Objects[i]; o.Name == name {
			o.Candidate, o.Version, o.ChangedAt = candidate, fmt.Sprint("v", candidate, w.unit.Now.UnixNano()), w.unit.Now
		}
	}
}

func (w *world) wantShown(want int, state release.State) {
	w.Helper()
	if got := len(plan.Exposed(w.unit)); got != want {
		w.Errorf("%d pods have the candidate, want %d (%q)", got, want, w.log)
	}
	for _, o := range w.unit.Objects {
		if o.Candidate != o.Stable && o.Exposure.State != state {
			w.Errorf("%s is in the state %q, want %q", o.Name, o.Exposure.State, state)
		}
	}
}

func (w *world) wantStable(want string) {
	w.Helper()
	for _, o := range w.unit.Objects {
		if o.Stable != want || o.Exposure.Digest != "" {
			w.Errorf("%s has the stable content %s and the exposure %v, want %s and none", o.Name, o.Stable, o.Exposure, want)
		}
	}
}

const web = "configmap/web"

// TestGoodEdit goes through the steps, each for the pause, and is promoted.
func TestGoodEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 500, "{steps: [1, 5%, 25%], pause: 30s}", web)
	if after := w.do(); after != 0 {
		t.Errorf("without an edit it looks again after %s", after)
	}
	w.edit(web, "2")
	for _, want := range []int{1, 25, 125} {
		if after := w.do(); after != 30*time.Second {
			t.Errorf("it looks again after %s, want 30s", after)
		}
		w.wantShown(want, release.Progressing)
		first := plan.Exposed(w.unit)
		w.pass(29 * time.Second).do()
		if diff := cmp.Diff(first, plan.Exposed(w.unit), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the pods have changed within the step:\n%s", diff)
		}
		w.pass(time.Second)
	}
	w.do()
	w.wantStable("2")
}

// TestPodsKeepTheCandidate from step to step, whichever pods come and go.
func TestPodsKeepTheCandidate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newEdited(t, 1+random.IntN(40), "{steps: [1, 3, 10%, 2, 50%, 90%], pause: 1s}", web)
		had := map[string]bool{}
		for range 6 {
			w.do()
			if w.unit.Objects[0].Stable == "2" {
				break
			}
			has := map[string]bool{}
			for _, p := range plan.Exposed(w.unit) {
				has[p.UID] = true
			}
			for _, p := range w.unit.Pods {
				if had[p.UID] && !has[p.UID] {
					t.Fatalf("seed %d: pod %s has lost the candidate between two steps", seed, p.Name)
				}
			}
			had = has
			w.pass(time.Second)
			for i := range w.unit.Pods {
				if random.IntN(4) == 0 { // A new pod takes the place of another one.
					w.unit.Pods[i].UID = fmt.Sprint("uid-new-", random.Uint64())
					w.unit.Pods[i].Created, w.unit.Pods[i].Changed = w.unit.Now, w.unit.Now
				}
			}
		}
		for range 6 { // A step begins again if all of its pods are gone.
			w.do()
			w.pass(time.Second)
		}
		w.wantStable("2")
	}
}

func TestBadEdit(t *testing.T) {
	t.Parallel()
	tests := map[string]func(p *plan.Pod, now time.Time){
		"not Ready":            func(p *plan.Pod, now time.Time) { p.IsReady, p.Changed = false, now },
		"restarted":            func(p *plan.Pod, now time.Time) { p.Restarts, p.Ended = 1, now },
		"not Ready for a blip": func(p *plan.Pod, now time.Time) { p.Changed = now },
	}
	for name, spoil := range tests {
		for _, onFailure := range []settings.OnFailure{settings.Revert, settings.Freeze} {
			t.Run(name+" "+string(onFailure), func(t *testing.T) {
				t.Parallel()
				w := newEdited(t, 20, "{steps: [10%], pause: 30s, onFailure: "+string(onFailure)+"}", web)
				w.do()
				w.pass(2 * time.Second)
				w.spoilOne(func(p *plan.Pod) { spoil(p, w.unit.Now) })
				w.do()
				shown, state := 0, release.Reverted
				if onFailure == settings.Freeze {
					shown, state = 2, release.Frozen
				}
				w.wantShown(shown, state)
				w.pass(time.Hour).do()
				w.wantShown(shown, state)
				w.edit(web, "3") // The pod has failed by another edit.
				w.seen = map[string]*plan.Seen{}
				w.do()
				w.wantShown(2, release.Progressing)
				w.edit(web, "1") // The owner takes it back.
				w.do()
				w.wantStable("1")
			})
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, "{}", web)
	w.refuses = true
	w.edit(web, "2")
	w.do()
	w.wantShown(0, release.Refused)
	w.pass(time.Hour).do()
	w.wantShown(0, release.Refused)
	w.refuses = false
	w.unit.Objects[0].Rules = "other"
	w.do()
	w.wantShown(1, release.Progressing)
}

// TestNobodyToShowItTo: pods of other namespaces may use the object, and get their share of the
// edit.
func TestNobodyToShowItTo(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 0, "{steps: [1, 5%], pause: 1s}", web)
	w.do()
	w.pass(time.Second).do()
	if got := w.unit.Objects[0].Exposure.Threshold; got != 0.05 {
		t.Errorf("the threshold is %v, want 5%%", got)
	}
	w.pass(time.Second).do()
	w.wantStable("2")
}

func TestNoSteps(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 3, "{steps: []}", web)
	w.do()
	w.wantStable("2")
}

// TestANewerEdit takes the place of the candidate at every step.
func TestANewerEdit(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 10, "{steps: [1, 50%], pause: 1s}", web)
	w.do()
	w.pass(time.Second).do()
	w.wantShown(5, release.Progressing)
	w.edit(web, "3")
	if got := len(plan.Exposed(w.unit)); got != 0 {
		t.Errorf("%d pods have an edit that nobody has exposed", got)
	}
	w.do()
	w.wantShown(1, release.Progressing)
}

// TestRulesThatComeLater are those of an edit that few pods have: it is checked again, taken back
// if it breaks them, and goes on from where it was if not.
func TestRulesThatComeLater(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuses bool
		shown   int
		state   release.State
	}{
		"it breaks them": {true, 0, release.Refused},
		"they hold":      {false, 5, release.Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 10, "{steps: [1, 50%], pause: 30s}", web)
			w.do()
			w.pass(30 * time.Second).do()
			w.wantShown(5, release.Progressing)
			since := w.unit.Objects[0].Exposure.Since
			w.unit.Objects[0].Rules, w.refuses, w.log = "{steps: [1, 50%], validate: [{key: a.yaml}]}", tc.refuses, nil
			w.pass(10 * time.Second).do()
			w.wantShown(tc.shown, tc.state)
			if len(w.log) == 0 || w.log[0] != "Check 2 Progressing" {
				t.Errorf("the decisions are %q, want a check first", w.log)
			}
			if got := w.unit.Objects[0].Exposure.Since; !tc.refuses && !got.Equal(since) {
				t.Errorf("the step began at %s, want it unchanged: %s", got, since)
			}
		})
	}
}
