package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

const (
	// readsAtATime is for how many namespaces pods are read at a time.
	readsAtATime = 4
	// podsOfAPage is how many pods one request reads, so that a large namespace takes no memory.
	podsOfAPage = 500
	// pageTime is how long one request may take.
	pageTime = 15 * time.Second
	// slowTime is how long a request takes at least that may have waited for an API server that
	// came back, as those of kubelets have.
	slowTime = 2 * time.Second
	// readAgain is when it is decided again while pods are read, or after that has failed.
	readAgain = time.Second
	// readKept is how long what was read is kept beside the cache, which may be behind.
	readKept = 15 * time.Second
)

// podReads know how well the pods of a namespace are known.
type podReads struct {
	mu         sync.Mutex // Guards the fields below.
	known      plan.Reads
	isBroken   bool      // The last request has failed.
	watchedFor time.Time // Until when the API server should not end the watch.
	isReading  bool
	wasSlow    bool
	version    string                   // Of the read.
	pods       map[types.UID]*cachedPod // Those of the read.
}

func newPodReads() *podReads { return &podReads{known: plan.Reads{Since: time.Now()}} }

// note notes whether a request has reached the API server. The first one that does so after others
// that did not is the end of an outage.
func (r *podReads) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isAnswer := err == nil || apierrors.IsInvalid(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if !isAnswer || r.isBroken {
		r.known.BrokenAt = time.Now()
	}
	r.isBroken = !isAnswer
}

// watches notes a new watch. One that comes before the last one should have ended means that the
// connection was lost.
func (r *podReads) watches(timeoutSeconds *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.watchedFor) {
		r.isBroken, r.known.BrokenAt = true, now
	}
	r.watchedFor = time.Time{}
	if timeoutSeconds != nil {
		const early = time.Second
		r.watchedFor = now.Add(time.Duration(*timeoutSeconds)*time.Second - early)
	}
}

// listWatch lists and watches the pods of a namespace for an informer.
func (r *podReads) listWatch(client kubernetes.Interface, namespace string) cache.ListerWatcher {
	pods := client.CoreV1().Pods(namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := pods.List(ctx, options)
			r.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			r.watches(options.TimeoutSeconds)
			w, err := pods.Watch(ctx, options)
			r.note(err)
			return w, err
		},
	}, client)
}

// begin reports whether a read may begin: none is under way, and none has ended since it was
// decided to read, from one that began at last.
func (r *podReads) begin(last time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isReading || r.known.At.After(last) {
		return false
	}
	r.isReading = true
	return true
}

// end notes a read, and how long its slowest request took. A slow one may have waited for the end
// of an outage, so another one follows, and that may be slow.
func (r *podReads) end(began time.Time, took time.Duration, version string, pods map[types.UID]*cachedPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isReading = false
	if pods == nil {
		return
	}
	if took >= slowTime && !r.wasSlow {
		r.wasSlow, r.known.BrokenAt = true, time.Now()
		return
	}
	r.wasSlow, r.known.At, r.version, r.pods = false, began, version, pods
}

// of returns how well the pods are known, and those of the cache, or newer ones that were read.
func (r *podReads) of(cached []any) (known plan.Reads, pods []*cachedPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.known.At) >= readKept {
		r.known.At, r.pods = time.Time{}, nil
	}
	inCache := map[types.UID]bool{}
	for _, o := range cached {
		pod, ok := o.(*cachedPod)
		if !ok {
			continue
		}
		inCache[pod.UID] = true
		if current := r.currentLocked(pod); current != nil {
			pods = append(pods, current)
		}
	}
	for uid, pod := range r.pods {
		if !inCache[uid] {
			pods = append(pods, pod)
		}
	}
	return r.known, pods
}

// currentLocked returns a pod of the cache, or as it was read, or nil if it was deleted before the
// read. It must be called with mu held.
func (r *podReads) currentLocked(pod *cachedPod) *cachedPod {
	if r.pods == nil {
		return pod
	}
	read := r.pods[pod.UID]
	version := r.version
	if read != nil {
		version = read.ResourceVersion
	}
	if newer, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, version); err == nil && newer > 0 {
		return pod
	}
	return read
}

// readPods reads the pods of a namespace beside the workers, unless that is under way or there is a
// newer read than the last one. Then it is decided again about each unit.
func (c *Controller) readPods(ctx context.Context, namespace string, last time.Time) {
	p := c.pods.in(namespace)
	if p == nil || !p.reads.begin(last) {
		return
	}
	c.pods.running.Go(func() {
		giveBack, err := c.reading.Take(ctx, namespace)
		if err != nil {
			return // The controller ends.
		}
		defer giveBack()
		began := time.Now()
		var version string
		var pods map[types.UID]*cachedPod
		var took time.Duration
		err = workloop.Recover(func() (err error) {
			version, pods, took, err = c.listPods(ctx, p, namespace)
			return err
		})
		p.reads.note(err)
		p.reads.end(began, took, version, pods)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Could not read the pods; the release waits",
				logkeys.Namespace, namespace)
			return
		}
		for _, u := range p.unitsOf() {
			c.queue.Add(u)
		}
	})
}

// listPods returns the pods of a namespace as they are now, page by page, without those that no
// release is about. They are nil after an error.
func (c *Controller) listPods(
	ctx context.Context, p *podCache, namespace string,
) (version string, pods map[types.UID]*cachedPod, took time.Duration, err error) {
	pods = map[types.UID]*cachedPod{}
	options := metav1.ListOptions{Limit: podsOfAPage} // Without a version: no cache may answer that is behind.
	for {
		c.requests.Spend(namespace)
		began := time.Now()
		list, err := c.podsPage(ctx, namespace, options)
		if err != nil {
			return "", nil, 0, err
		}
		took = max(took, time.Since(began))
		for i := range list.Items {
			if pod := p.reduce(&list.Items[i]); len(pod.uses) > 0 {
				pods[pod.UID] = pod
			}
		}
		version = cmp.Or(version, list.ResourceVersion)
		if options.Continue = list.Continue; options.Continue == "" {
			return version, pods, took, nil
		}
	}
}

func (c *Controller) podsPage(
	ctx context.Context, namespace string, options metav1.ListOptions,
) (*corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	return c.cfg.Client.CoreV1().Pods(namespace).List(ctx, options)
}
