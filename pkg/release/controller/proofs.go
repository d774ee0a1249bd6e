package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// Drivers reports what the files of pods have.
type Drivers interface {
	// Ask returns what the drivers of nodes report now about pods of a namespace, an answer for
	// each. Other namespaces take no memory and no time of this one.
	Ask(ctx context.Context, namespace string, nodes []string) map[string]Answer
}

// Answer is the answer of one driver.
type Answer struct {
	Volumes []statusz.Volume
	// Started is when this run of the driver began, and Now when it answered, by the clock of its
	// node.
	Started, Now time.Time
	// Err is why there is no report.
	Err error
}

const (
	// asksAtATime is how many units are asked about at a time; a namespace has one at most, so one
	// whose nodes do not answer keeps no other waiting.
	asksAtATime = 4
	// askTime is how long one unit is asked about.
	askTime = 15 * time.Second
	// waitingTime is how long a release may wait until an Event reports it.
	waitingTime = 30 * time.Second
)

// proofs remember what drivers have reported about the pods of units.
type proofs struct {
	drivers Drivers // Nil if they cannot be asked.
	limit   *fairqueue.Semaphore
	running sync.WaitGroup

	mu    sync.Mutex // Guards units.
	units map[unit]*proofsOfUnit
}

// proofsOfUnit are about one question.
type proofsOfUnit struct {
	question string
	isAsking bool
	pods     map[string]*plan.Proof // By UID.
}

func newProofs(drivers Drivers) *proofs {
	return &proofs{drivers: drivers, limit: fairqueue.NewSemaphoreForEach(asksAtATime, 1), units: map[unit]*proofsOfUnit{}}
}

// questionOf stands for what drivers are asked: whether files have the candidates, or what was
// stable before.
func questionOf(state plan.Unit) string {
	return fmt.Sprint(plan.IsTakenBack(state), candidatesOf(state.Objects))
}

// of returns pods with what was reported of them. pods is not changed.
func (p *proofs) of(u unit, state plan.Unit, pods []plan.Pod) []plan.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.units[u]
	if known == nil || known.question != questionOf(state) {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].Proof = known.pods[pods[i].UID]
	}
	return pods
}

// ask asks the drivers of pods beside the workers, unless that is under way. Then it calls done.
func (p *proofs) ask(
	ctx context.Context, u unit, state plan.Unit, pods []plan.Pod, wanted map[string]statusz.Version, done func(unit),
) {
	p.mu.Lock()
	defer p.mu.Unlock()
	question := questionOf(state)
	of := p.units[u]
	if of == nil || of.question != question {
		of = &proofsOfUnit{question: question}
		p.units[u] = of
	}
	if of.isAsking {
		return
	}
	of.isAsking = true
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].Proof = of.pods[pods[i].UID]
	}
	p.running.Go(func() {
		found := map[string]*plan.Proof{}
		err := workloop.Recover(func() error {
			p.find(ctx, u.namespace, pods, wanted, found)
			return nil
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Could not read what drivers report about a release", logkeys.Key, u.String())
			for _, pod := range pods {
				found[pod.UID] = &plan.Proof{At: time.Now(), Missing: "the controller failed on the report; its log has the reason"}
			}
		}
		p.mu.Lock()
		of.isAsking, of.pods = false, found
		p.mu.Unlock()
		done(u)
	})
}

// find asks the drivers, and adds what they report, by the UIDs of pods.
func (p *proofs) find(
	ctx context.Context, namespace string, pods []plan.Pod,
	wanted map[string]statusz.Version, found map[string]*plan.Proof,
) {
	giveBack, err := p.limit.Take(ctx, namespace)
	if err != nil {
		return // The controller ends.
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	nodes := map[string]struct{}{}
	for _, pod := range pods {
		nodes[pod.Node] = struct{}{}
	}
	answers := p.drivers.Ask(ctx, namespace, slices.Sorted(maps.Keys(nodes)))
	for _, pod := range pods {
		found[pod.UID] = answers[pod.Node].proof(pod, wanted, pod.Proof, time.Now())
	}
}

// proof returns what is known of a pod now, given what was known before, which may be nil. Without
// an answer the files are as they were, as far as is known.
func (a Answer) proof(pod plan.Pod, wanted map[string]statusz.Version, before *plan.Proof, now time.Time) *plan.Proof {
	proof := &plan.Proof{At: now, Missing: a.missing(pod, wanted)}
	if proof.Missing == "" {
		proof.Since = a.since(pod, wanted, now)
	}
	isKnown := before != nil && !before.Since.IsZero()
	isEarlier := isKnown && (proof.Since.IsZero() || before.Since.Before(proof.Since))
	if isEarlier && (proof.Missing == "" || a.Err != nil) {
		proof.Since = before.Since
	}
	return proof
}

// since returns since when the files of a pod have the candidates, at the latest, by the clock of
// this process; zero if the driver does not report it.
func (a Answer) since(pod plan.Pod, wanted map[string]statusz.Version, now time.Time) (since time.Time) {
	if a.Now.IsZero() {
		return since
	}
	for name := range wanted {
		for i := range a.volumesWith(pod, name) {
			changed := a.Volumes[i].ProjectedAt
			if changed.IsZero() {
				changed = a.Started // This run has found the files as they are.
			}
			if at := now.Add(-max(0, a.Now.Sub(changed))); at.After(since) {
				since = at
			}
		}
	}
	return since
}

// missing returns why it is not proven that the files of a pod have the candidates with these
// versions; empty if it is.
func (a Answer) missing(pod plan.Pod, wanted map[string]statusz.Version) string {
	if a.Err != nil {
		return brief(a.Err.Error())
	}
	for _, name := range pod.Objects {
		version, isWanted := wanted[name]
		if !isWanted {
			continue
		}
		shown := a.volumesWith(pod, name)
		if len(shown) == 0 {
			return "its driver reports no volume with " + name
		}
		for v, s := range shown {
			if s.Projected == nil || *s.Projected != version {
				return lacks(a.Volumes[v], name)
			}
		}
	}
	return ""
}

// volumesWith returns what each volume of a pod shows of an object of its namespace, by the index
// of the volume.
func (a Answer) volumesWith(pod plan.Pod, name string) map[int]statusz.Source {
	shown := map[int]statusz.Source{}
	for i, v := range a.Volumes {
		for _, s := range v.Sources {
			isIt := release.NameOf(api.Ref{Kind: api.Kind(s.Kind), Name: s.Name}) == name && s.Namespace == v.Pod.Namespace
			if isIt && v.Pod.UID == pod.UID {
				shown[i] = s
			}
		}
	}
	return shown
}

// lacks returns why the files of a volume do not have an object as it is wanted.
func lacks(v statusz.Volume, name string) string {
	if v.Problem == nil {
		return fmt.Sprintf("volume %q has another version of %s", v.Name, name)
	}
	return fmt.Sprintf("volume %q is not current: %s", v.Name, brief(v.Problem.Message))
}

// brief returns the beginning of a text that becomes a part of an annotation.
func brief(text string) string {
	const most = 300
	line, _, _ := strings.Cut(text, "\n")
	return strings.ToValidUTF8(line[:min(len(line), most)], "")
}

func (p *proofs) forget(u unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.units[u]; of != nil && !of.isAsking {
		delete(p.units, u)
	}
}

// wait returns when nobody is asked any more. The context of asking must have ended.
func (p *proofs) wait() { p.running.Wait() }

// wantedOf returns which versions of the objects that have a candidate must be in the files: those
// of the candidates or, if these were taken back, of the stable copies.
func wantedOf(members []*member, state plan.Unit) map[string]statusz.Version {
	wanted := map[string]statusz.Version{}
	for _, m := range members {
		from := m.source
		if plan.IsTakenBack(state) {
			from = *m.copy
		}
		if m.source.Digest != m.copy.Digest {
			wanted[m.name()] = statusz.Version{UID: string(from.UID), ResourceVersion: from.Version}
		}
	}
	return wanted
}

// reportTakenBack reports whether the files of pods that had an edit have it any more.
func (c *Controller) reportTakenBack(ctx context.Context, members []*member, d plan.Decision, now time.Time) {
	for _, m := range members {
		doubt, confirmed := "", ""
		e := m.copy.Exposure()
		switch {
		case d.Doubt != "" && now.Sub(e.Since) >= waitingTime:
			doubt = "The edit was taken back, and it is not known that all pods have the former content: " + d.Doubt
		case d.Confirmed > 0:
			confirmed = fmt.Sprintf("Drivers report the former content in the files that had the edit (pods asked about: %d).",
				d.Confirmed)
		}
		if c.reports.replace(m.ref(), ReasonStillShown, doubt) {
			c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonStillShown, doubt})
		}
		if c.reports.replace(m.ref(), ReasonTakenBack, confirmed) {
			c.event(ctx, m, notice{corev1.EventTypeNormal, ReasonTakenBack, confirmed})
		}
	}
}

// reportWaiting reports releases that have waited for proof for some time.
func (c *Controller) reportWaiting(ctx context.Context, members []*member, now time.Time) {
	for _, m := range members {
		e, text := m.copy.Exposure(), ""
		isWaiting := e.State == release.Waiting && e.Digest == m.source.Digest
		if isWaiting && now.Sub(e.Since) >= m.settings.Pause+waitingTime {
			text = "The edit reaches no more pods for now: " + e.Reason +
				". `kubectl liveconfig release promote` shows it to all pods all the same"
		}
		if c.reports.replace(m.ref(), ReasonWaiting, text) {
			c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonWaiting, text})
		}
	}
}
