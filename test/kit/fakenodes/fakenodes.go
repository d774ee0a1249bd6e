// Package fakenodes plays the scheduler and the kubelets of a cluster without running anything: pods are bound to made-up
// nodes, read the ConfigMaps and Secrets that they name, become ready unless the test says that they fail, and are gone soon
// after they are deleted. What happened is kept in a journal, so that a test can look back at a rollout.
//
// It is separate from test/bench/scale/fleet, whose nodes watch as drivers do and have no pods, since a rollout needs pods and no
// watches.
//
// It does not know images, commands, probes, volumes' files or Services, and a pod that runs never ends by itself.
package fakenodes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// Agent is what the nodes' requests say that they are from.
const Agent = "fakenodes"

const (
	// actors is how many pods are seen to at a time.
	actors = 8
	// firstRetry and lastRetry are the pauses before a pod is tried again that waits for an object, or whose request failed.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// patience is the longest that anything is waited for: several times what 500 pods take on a busy machine.
	patience = 3 * time.Minute
)

// Config says what the nodes is made of. The zero value has one node.
type Config struct {
	// Nodes is how many there are. A DaemonSet has a pod on each; other pods are bound to the first.
	Nodes int
}

// Fails says why a pod does not become ready, or stops being so: its container is then shown as one that crashes, with that
// message. Nil lets it be ready. It is called by several goroutines, for each pod as often as anything happens to it and once
// its objects were read, so it may ask [Nodes.Config].
type Fails func(*corev1.Pod) error

// Nodes acts for all pods of a cluster. Its methods may be called by many goroutines.
type Nodes struct {
	cfg    Config
	client kubernetes.Interface
	book   *book
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	stop func()
	done sync.WaitGroup

	mu    sync.Mutex // Guards what follows.
	fails map[string]Fails
	// started has what pods have read, also of pods that are gone; ended has those that were removed.
	started map[types.UID][]Source
	ended   map[types.UID]bool
}

// Start returns when the nodes are there and ready, and all pods are known. Before a DaemonSet uses the nodes, the controller
// manager of test/kit/controllers has to take away the taint that every new node has. The context bounds the start only; the
// caller must call [Nodes.Stop]. A cluster has one stage at a time.
func Start(ctx context.Context, c *cluster.Cluster, cfg Config) (*Nodes, error) {
	cfg.Nodes = max(cfg.Nodes, 1)
	config := c.AdminConfig()
	config.UserAgent = Agent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the nodes' client: %w", err)
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry)
	s := &Nodes{
		cfg: cfg, client: client, queue: workqueue.NewTypedRateLimitingQueue(limiter),
		fails: make(map[string]Fails), started: make(map[types.UID][]Source), ended: make(map[types.UID]bool),
	}
	s.book = newBook(s.queue.Add)
	if err := s.makeNodes(ctx); err != nil {
		return nil, err
	}
	hasSynced := s.run(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), hasSynced) {
		s.Stop()
		return nil, fmt.Errorf("wait for the list of pods: %w", ctx.Err())
	}
	return s, nil
}

// run starts the goroutines, which end with [Nodes.Stop].
func (s *Nodes) run(ctx context.Context) (hasSynced cache.InformerSynced) {
	ctx, s.stop = context.WithCancel(ctx)
	_, pods := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, fields.Everything()),
		ObjectType:    &corev1.Pod{}, Handler: s.book,
	})
	s.done.Go(func() { pods.RunWithContext(ctx) })
	for _, name := range s.nodes() {
		s.done.Go(func() { s.keepAlive(ctx, name) })
	}
	for range actors {
		s.done.Go(func() { s.work(ctx) })
	}
	return pods.HasSynced
}

// Stop ends the nodes. Pods stay as they are; nodes count as lost when the controller manager has not heard of them for most
// of a minute. A second Stop does nothing.
func (s *Nodes) Stop() {
	s.stop()
	s.queue.ShutDown()
	s.done.Wait()
}

// SetFails says which pods of a namespace fail from now on; nil says that none do. All its pods are looked at again: those
// that run fail or recover.
func (s *Nodes) SetFails(namespace string, fails Fails) {
	s.mu.Lock()
	s.fails[namespace] = fails
	s.mu.Unlock()
	for _, pod := range s.book.podsOf(namespace) {
		s.queue.Add(keyOf(pod))
	}
}

// verdict is why a pod fails, if it does.
func (s *Nodes) verdict(pod *corev1.Pod) error {
	s.mu.Lock()
	fails := s.fails[pod.Namespace]
	s.mu.Unlock()
	if fails == nil {
		return nil
	}
	return fails(pod)
}

// Config returns which objects the pod has read when it was started, each once, by kind and name: what its environment is
// made of, and its files were at first. The API server's certificate, which every pod has, is not among them. It is nil for a pod that was not started. It knows pods that
// are gone.
func (s *Nodes) Config(pod *corev1.Pod) []Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[pod.UID]
}

// Pods returns the pods of a namespace by name. They are shared and must not be changed.
func (s *Nodes) Pods(namespace string) []*corev1.Pod { return s.book.podsOf(namespace) }

// Journal returns what has happened in a namespace since the nodes was started, oldest first.
func (s *Nodes) Journal(namespace string) Journal { return s.book.journalOf(namespace) }

// Await returns when the pods of a namespace are as wanted, or with an error after three minutes. The journal then has what
// made them so. The pods are sorted by name; wanted is called with the nodes locked, and may
// not call it.
func (s *Nodes) Await(ctx context.Context, namespace string, wanted func([]*corev1.Pod) bool) error {
	// The condition is called with the book's lock held.
	err := s.book.await(ctx, func() bool { return wanted(s.book.list(namespace)) })
	if err != nil {
		return fmt.Errorf("wait for the pods of %s: %w; what happened:\n%s", namespace, err, s.Journal(namespace))
	}
	return nil
}

// work sees to pods until the nodes is stopped.
func (s *Nodes) work(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		s.settle(ctx, key, s.act(ctx, key))
		s.queue.Done(key)
	}
}

// settle has a pod tried again after an error. A conflict says that a newer pod is on its way, and a pod that waits says so
// itself.
func (s *Nodes) settle(ctx context.Context, key types.NamespacedName, err error) {
	if err == nil || apierrors.IsNotFound(err) {
		s.queue.Forget(key)
		return
	}
	if _, waits := asWaiting(err); !waits && !apierrors.IsConflict(err) && ctx.Err() == nil {
		klog.FromContext(ctx).Info("The stage tries a pod again", "pod", key, "reason", err.Error())
	}
	s.queue.AddRateLimited(key)
}
