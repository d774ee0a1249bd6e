package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// podCaches hold the pods of namespaces with released objects, and of no others.
type podCaches struct {
	cfg     Config
	running sync.WaitGroup

	mu         sync.Mutex // Guards namespaces.
	namespaces map[string]*podCache
}

// podCache holds the pods of one namespace.
type podCache struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	uses     *usesOfAttributes
	reads    *podReads

	mu    sync.Mutex                          // Guards units.
	units map[unit]map[api.Ref]releasedObject // With their objects that are released.
}

func newPodCaches(cfg Config) *podCaches {
	return &podCaches{cfg: cfg, namespaces: map[string]*podCache{}}
}

// of returns the pods that use members of a unit. From then on, changed is called with the unit
// when one of its pods changes. It is not synced until all pods of the namespace were seen once.
func (c *podCaches) of(
	ctx context.Context, u unit, members []*member, changed func(unit),
) (pods []plan.Pod, reads plan.Reads, isSynced bool) {
	p := c.begin(ctx, u.namespace, changed)
	released := map[api.Ref]releasedObject{}
	for _, m := range members {
		released[m.ref()] = releasedObject{since: m.releasedAt, labels: m.source.Labels}
	}
	p.mu.Lock()
	p.units[u] = released
	p.mu.Unlock()
	if !p.informer.HasSynced() || p.informer.IsStopped() {
		return nil, plan.Reads{}, false
	}
	var sets [][]string // The files that may be those of other pods too.
	reads, known := p.reads.of(p.informer.GetStore().List())
	for _, pod := range known {
		if !pod.hasStarted || !pod.usesAny(released) {
			continue
		}
		var shared []string
		for _, use := range pod.uses {
			if use.mayShare(pod.is.Created, released) {
				shared = append(shared, use.files)
			}
		}
		is := pod.is
		is.Objects = pod.namesOf(released)
		pods, sets = append(pods, is), append(sets, shared)
	}
	return withShared(pods, sets), reads, true
}

// in returns the cache of a namespace; nil for none.
func (c *podCaches) in(namespace string) *podCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespaces[namespace]
}

// begin watches the pods of a namespace, if nobody does.
func (c *podCaches) begin(ctx context.Context, namespace string, changed func(unit)) *podCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, found := c.namespaces[namespace]; found {
		return p
	}
	ctx, stop := context.WithCancel(ctx)
	reads := newPodReads()
	source := reads.listWatch(c.cfg.Client, namespace)
	p := &podCache{
		informer: cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{}), reads: reads,
		stop: stop, units: map[unit]map[api.Ref]releasedObject{},
		uses: &usesOfAttributes{driver: c.cfg.DriverName, namespace: namespace, known: map[[sha256.Size]byte]use{}},
	}
	_ = p.informer.SetTransform(p.transform) // It has not started.
	_, _ = p.informer.AddEventHandler(workloop.OnChange(func(old, now any) {
		if pod, ok := cmp.Or(now, old).(*cachedPod); ok {
			p.notify(pod, changed)
		}
	}))
	c.namespaces[namespace] = p
	c.running.Go(func() { p.informer.RunWithContext(ctx) })
	klog.FromContext(ctx).V(2).Info("Watching the pods of a namespace with releases", logkeys.Namespace, namespace)
	return p
}

// end stops the watch of a namespace.
func (c *podCaches) end(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, found := c.namespaces[namespace]; found {
		p.stop()
		delete(c.namespaces, namespace)
	}
}

// forget ends the reports about changed pods to a unit.
func (c *podCaches) forget(u unit) {
	c.mu.Lock()
	p := c.namespaces[u.namespace]
	c.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.units, u)
}

// unitsOf returns the units of the namespace.
func (p *podCache) unitsOf() []unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.units))
}

// wait returns when all watches have ended. The context of them must have.
func (c *podCaches) wait() { c.running.Wait() }

// notify calls changed for the units that a pod belongs to.
func (p *podCache) notify(pod *cachedPod, changed func(unit)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for u, refs := range p.units {
		if pod.usesAny(refs) {
			changed(u)
		}
	}
}

// cachedPod is what of a pod matters.
type cachedPod struct {
	metav1.ObjectMeta

	is         plan.Pod
	uses       []use
	hasStarted bool // It is on a node, and has neither succeeded nor is it being deleted.
}

func (p *cachedPod) usesAny(refs map[api.Ref]releasedObject) bool {
	return slices.ContainsFunc(p.uses, func(u use) bool { return u.usesAny(refs) })
}

// namesOf returns the names of those of the objects that the pod uses.
func (p *cachedPod) namesOf(refs map[api.Ref]releasedObject) (names []string) {
	for o, is := range refs {
		if p.usesAny(map[api.Ref]releasedObject{o: is}) {
			names = append(names, release.NameOf(o))
		}
	}
	slices.Sort(names)
	return names
}

func (p *podCache) transform(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		return p.reduce(pod), nil
	}
	return o, nil
}

// reduce returns what of a pod matters.
func (p *podCache) reduce(pod *corev1.Pod) *cachedPod {
	kept := &cachedPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		is:   plan.Pod{Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time},
		uses: p.uses.of(pod),
		hasStarted: pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded &&
			(pod.Spec.NodeName != "" || pod.Status.Phase == corev1.PodRunning),
	}
	kept.is.HasFailed = pod.Status.Phase == corev1.PodFailed
	if len(kept.uses) == 0 {
		return kept
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			kept.is.IsReady, kept.is.Changed = condition.Status == corev1.ConditionTrue, condition.LastTransitionTime.Time
		}
	}
	kept.is.IsDisrupted = isDisrupted(pod.Status)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		kept.is.Restarts += int(status.RestartCount)
		if last := status.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(kept.is.Ended) {
			kept.is.Ended = last.FinishedAt.Time
		}
		kept.is.Containers = append(kept.is.Containers, containerOf(status))
	}
	return kept
}

// isDisrupted reports whether a pod is evicted, or its node is lost. The node controller then sets
// the condition Ready to False. Unlike the kubelet, it leaves ContainersReady, and gives no reason.
func isDisrupted(status corev1.PodStatus) bool {
	var isUnready, areReady bool
	for _, c := range status.Conditions {
		isTrue := c.Status == corev1.ConditionTrue
		if c.Type == corev1.DisruptionTarget && isTrue {
			return true
		}
		areReady = areReady || c.Type == corev1.ContainersReady && isTrue
		if c.Type == corev1.PodReady {
			if c.Reason == reasonNodeLost || c.Reason == reasonNodeNotReady {
				return true
			}
			isUnready = c.Status == corev1.ConditionFalse && c.Reason == ""
		}
	}
	return status.Reason == reasonNodeLost || isUnready && areReady
}

// The reasons of pods whose node is lost, from those versions of Kubernetes that write one.
const (
	reasonNodeLost     = "NodeLost"
	reasonNodeNotReady = "NodeNotReady"
)

// containerOf returns a container with its last end, after which it may not have been started again
// yet.
func containerOf(status corev1.ContainerStatus) plan.Container {
	c := plan.Container{Name: status.Name, Restarts: int(status.RestartCount)}
	for _, end := range []*corev1.ContainerStateTerminated{
		status.LastTerminationState.Terminated, status.State.Terminated,
	} {
		if end != nil && !end.FinishedAt.IsZero() {
			c.Ended, c.ExitCode = end.FinishedAt.Time, int(end.ExitCode)
		}
	}
	return c
}

// seenPods remembers what pods were like when they got a candidate.
type seenPods struct {
	mu    sync.Mutex // Guards units.
	units map[unit]*seenOfUnit
}

// seenOfUnit is for one set of candidates.
type seenOfUnit struct {
	candidates string
	pods       map[string]*plan.Seen
}

func candidatesOf(all []plan.Object) (text string) {
	for _, o := range all {
		text += o.Name + "=" + o.Candidate + "\n"
	}
	return text
}

// of returns pods with what was seen of them.
func (s *seenPods) of(u unit, candidates []plan.Object, pods []plan.Pod) []plan.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.units[u]
	if seen == nil || seen.candidates != candidatesOf(candidates) {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].Before = seen.pods[pods[i].UID]
	}
	return pods
}

// look remembers the pods that have a candidate. It is called before they are shown one, and
// whenever nothing is wrong with them.
func (s *seenPods) look(u unit, state plan.Unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	candidates := candidatesOf(state.Objects)
	seen := s.units[u]
	if seen == nil || seen.candidates != candidates {
		seen = &seenOfUnit{candidates: candidates}
		s.units[u] = seen
	}
	seen.pods = plan.Look(state, seen.pods)
}

func (s *seenPods) forget(u unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.units, u)
}
