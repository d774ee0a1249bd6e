package rollout

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// longWait is how long work of a namespace can wait for its allowance before the controller reports
// it.
const longWait = 10 * time.Second

// templateUses remember what the templates of workloads use. The status of a workload changes with
// each of its pods, and its template rarely.
type templateUses struct {
	mu      sync.Mutex // Guards last and matches.
	last    map[workload.Ref]knownUses
	matches map[workload.Ref]knownMatches
}

func newTemplateUses() *templateUses {
	return &templateUses{last: map[workload.Ref]knownUses{}, matches: map[workload.Ref]knownMatches{}}
}

// knownUses is what a template uses, by its sum.
type knownUses struct {
	sum  string
	uses []template.Use
	err  error
}

func (r *templateUses) of(ref workload.Ref, sum string) (knownUses, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.last[ref]
	return last, found && last.sum == sum
}

func (r *templateUses) store(ref workload.Ref, last knownUses) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[ref] = last
}

func (r *templateUses) forget(ref workload.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, ref)
	delete(r.matches, ref)
}

// matchesOf returns what was matched last; the zero value if nothing was.
func (r *templateUses) matchesOf(ref workload.Ref) knownMatches {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matches[ref]
}

func (r *templateUses) storeMatches(ref workload.Ref, last knownMatches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.matches[ref] = last
}

// read returns a workload with what its template uses, or how long it has to wait before its
// template and the annotations of Reloader can be read.
func (c *Controller) read(h *cachedWorkload) (*cachedWorkload, time.Duration) {
	place := c.placeOf(h)
	last, isKnown := c.uses.of(h.is.Ref, h.Sum)
	if !isKnown {
		if wait := c.attributeBytes.Wait(h.Namespace, h.is.Ref, template.Size(h.is.Template, place)); wait > 0 {
			return nil, wait
		}
		c.attributeBytes.Forget(h.is.Ref)
		last = knownUses{sum: h.Sum}
		last.uses, last.err = template.Uses(h.is.Template, place)
		c.uses.store(h.is.Ref, last)
	}
	full := *h // Objects of the caches are shared.
	full.Uses = last.uses
	full.addTrouble("the pod template: ", last.err)
	if full.IsReloaded {
		if wait := c.addReloaded(&full); wait > 0 {
			return nil, wait
		}
	}
	return &full, 0
}

// charge charges the workload's namespace with what an action takes, and returns how long it has to
// wait: the API server is asked about each copy that is not known yet, and attributes are read
// again to be changed and to be checked.
func (c *Controller) charge(h *cachedWorkload, d plan.Decision) time.Duration {
	const readings = 3
	wait := c.attributeBytes.Wait(h.Namespace, h.is.Ref, readings*template.Size(h.is.Template, c.placeOf(h)))
	wait = max(wait, c.requests.Wait(h.Namespace, h.is.Ref, c.unknownCopies(h, d)))
	if wait == 0 {
		c.attributeBytes.Forget(h.is.Ref)
		c.requests.Forget(h.is.Ref)
	}
	return wait
}

// unknownCopies counts the objects that the API server has to be asked about before a template can
// have a config.
func (c *Controller) unknownCopies(h *cachedWorkload, d plan.Decision) int {
	unknown, copied := 0, d.Config.Copies()
	for o, version := range d.Config {
		name := copied[o]
		switch {
		case version == h.Config[o], version != "" && name == "":
		case version == "" || !c.isKnown(o.Named(name).In(h.Namespace)) || c.cfg.SecretsByPod && isReadByPods(h, o):
			unknown++
		}
	}
	return unknown
}

func (c *Controller) placeOf(h *cachedWorkload) template.Place {
	return template.Place{Namespace: h.Namespace, Driver: c.cfg.DriverName}
}

// postpone has a workload looked at again when its namespace may use more of the controller's time.
// If that is long, an Event reports it once.
func (c *Controller) postpone(ctx context.Context, h *cachedWorkload, wait time.Duration) {
	c.cfg.Metrics.putOff.Inc()
	c.workloads.AddAfter(h.is.Ref, wait)
	const text = "Waits for other workloads of its namespace: together they ask for more than the controller does for " +
		"one namespace at a time"
	if wait < longWait || !c.reported.Replace(h.is.Ref, text) {
		return
	}
	c.event(h, notice{corev1.EventTypeWarning, ReasonPutOff, text})
	klog.FromContext(ctx).Info("A workload waits, because its namespace has used up its share", logkeys.Workload,
		h.is.String(),
		logkeys.Namespace, h.Namespace, logkeys.Delay, wait)
}

// doubting is the work to read the attributes of a revision in doubt, for the workload that waits
// for it. It outlives what the cache has of the revision, which changes with each of its pods.
type doubting struct{ workload.Ref }

// isPlain reports whether a revision of a workload is plain, or how long it has to wait before that
// is known.
func (c *Controller) isPlain(ref workload.Ref, r *cachedRevision) (plain bool, wait time.Duration) {
	if r.Plain || r.Doubt == nil {
		return r.Plain, 0
	}
	if !r.Doubt.isRead.Load() {
		if wait := c.attributeBytes.Wait(r.Namespace, doubting{ref}, r.Doubt.size); wait > 0 {
			return false, wait
		}
		c.attributeBytes.Forget(doubting{ref})
	}
	return r.Doubt.read(), 0
}
