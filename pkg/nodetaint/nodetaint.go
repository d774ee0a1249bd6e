// Package nodetaint keeps pods off nodes until the driver is there. A node may carry the taint
// liveconfig.internal/driver-not-ready from its birth. The package removes this taint, and no other
// one, when the node's CSINode lists the driver and the driver's pod on the node is ready.
//
// It does not know volumes, sources or rollouts.
package nodetaint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
)

// Key is the key of the taint. The person who creates the node chooses its effect.
const Key = api.Domain + "/driver-not-ready"

// Times between attempts to remove a taint.
const (
	firstPatchRetry   = 50 * time.Millisecond
	longestPatchRetry = 10 * time.Second
)

// queueName is the name of the queue in metrics.
const queueName = "nodes"

// Config configures a Remover. All fields but the last two are required.
type Config struct {
	Client     kubernetes.Interface
	DriverName string
	// Namespace and Selector, which is a label selector, select the driver's pods.
	Namespace, Selector string
	// Registry is where the metrics are registered.
	Registry prometheus.Registerer
	// Queues counts the work that waits.
	Queues workqueue.MetricsProvider
	// Panics counts panics over one node; nil for no count.
	Panics *prometheus.CounterVec
	// DryRun means that the Remover only logs which taints it would remove.
	DryRun bool
}

// Remover removes the taint. New makes one.
type Remover struct {
	cfg      Config
	nodes    cache.SharedIndexInformer
	csiNodes cache.SharedIndexInformer
	pods     cache.SharedIndexInformer
	removed  prometheus.Counter
	queue    workqueue.TypedRateLimitingInterface[string]
}

// New returns a Remover that does nothing until it runs.
func New(cfg Config) (*Remover, error) {
	r := &Remover{cfg: cfg, removed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "liveconfig_controller_node_taints_removed_total",
		Help: "Taints " + Key + " that this process has removed, each from a node whose driver became ready.",
	})}
	if err := r.watch(); err != nil {
		return nil, err
	}
	tainted := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liveconfig_controller_tainted_nodes",
		Help: "Nodes that have the taint " + Key + "; 0 for a process that waits for the lease.",
	}, r.tainted)
	return r, errors.Join(cfg.Registry.Register(r.removed), cfg.Registry.Register(tainted))
}

// tainted is a metric.
func (r *Remover) tainted() float64 {
	count := 0
	for _, o := range r.nodes.GetStore().List() {
		if node, ok := o.(*corev1.Node); ok && slices.ContainsFunc(node.Spec.Taints, isOurs) {
			count++
		}
	}
	return float64(count)
}

// HaveSynced reports whether the Remover has seen all nodes and pods once.
func (r *Remover) HaveSynced() bool {
	return r.nodes.HasSynced() && r.csiNodes.HasSynced() && r.pods.HasSynced()
}

// Run removes taints until ctx ends. It can be called once.
func (r *Remover) Run(ctx context.Context) error {
	r.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPatchRetry, longestPatchRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: queueName, MetricsProvider: r.cfg.Queues})
	if err := r.listen(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, informer := range []cache.SharedIndexInformer{r.nodes, r.csiNodes, r.pods} {
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	if !cache.WaitForCacheSync(ctx.Done(), r.nodes.HasSynced, r.csiNodes.HasSynced, r.pods.HasSynced) {
		return nil
	}
	workloop.Loop[string]{Queue: r.queue, Do: r.sync, Panics: r.cfg.Panics, Name: queueName}.Run(ctx)
	return nil
}

// sync removes the taint of a node whose driver is ready.
func (r *Remover) sync(ctx context.Context, name string) error {
	found, exists, err := r.nodes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return err
	}
	node, ok := found.(*corev1.Node)
	if !ok || !slices.ContainsFunc(node.Spec.Taints, isOurs) || !r.isRegistered(name) || !r.isReady(name) {
		return nil
	}
	if r.cfg.DryRun {
		klog.FromContext(ctx).Info("The driver of a node is ready: the taint of the node would be removed", logkeys.NodeID,
			name)
		return nil
	}
	patch, err := patchOf(node)
	if err != nil {
		return err
	}
	_, err = r.cfg.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{
		FieldManager: api.ControllerName,
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil: // Conflicts are expected: the cache will have the node as it is.
		return fmt.Errorf("remove the taint %s of node %s: %w", Key, name, err)
	}
	r.removed.Inc()
	klog.FromContext(ctx).Info("The driver of a node is ready, and its taint is removed", logkeys.NodeID, name)
	return nil
}

func isOurs(t corev1.Taint) bool { return t.Key == Key }

// isRegistered reports whether the kubelet of a node knows the driver.
func (r *Remover) isRegistered(name string) bool {
	found, exists, err := r.csiNodes.GetStore().GetByKey(name)
	node, ok := found.(*storagev1.CSINode)
	return err == nil && exists && ok && slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return d.Name == r.cfg.DriverName
	})
}

// isReady reports whether a pod of the driver on the node is ready.
func (r *Remover) isReady(name string) bool {
	pods, err := r.pods.GetIndexer().ByIndex(byNode, name)
	return err == nil && slices.ContainsFunc(pods, func(o any) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && pod.DeletionTimestamp == nil &&
			slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
	})
}

// patchOf returns the patch that removes our taints from a node. With a version of the node that is
// not the latest, the patch is a conflict.
func patchOf(node *corev1.Node) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOurs)},
	})
}
