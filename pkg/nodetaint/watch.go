package nodetaint

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
)

// byNode is the index of pods by the name of their node.
const byNode = "node"

// watch makes the caches. They hold what the Remover reads and no more: a node's status has a list
// of images that is longer than all the rest.
func (r *Remover) watch() error {
	all := informers.NewSharedInformerFactory(r.cfg.Client, 0)
	r.nodes = all.Core().V1().Nodes().Informer()
	r.csiNodes = all.Storage().V1().CSINodes().Informer()
	isDriver := func(o *metav1.ListOptions) { o.LabelSelector = r.cfg.Selector }
	r.pods = informers.NewSharedInformerFactoryWithOptions(r.cfg.Client, 0, informers.WithNamespace(r.cfg.Namespace),
		informers.WithTweakListOptions(isDriver)).Core().V1().Pods().Informer()
	return errors.Join(
		r.nodes.SetTransform(bare), r.csiNodes.SetTransform(bare), r.pods.SetTransform(bare),
		r.pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) { return []string{nodeOf(o)}, nil }}),
	)
}

// bare keeps what the Remover reads of an object.
func bare(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: named(o.ObjectMeta), Spec: corev1.NodeSpec{Taints: o.Spec.Taints}}, nil
	case *storagev1.CSINode:
		return &storagev1.CSINode{ObjectMeta: named(o.ObjectMeta), Spec: o.Spec}, nil
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: named(o.ObjectMeta), Spec: corev1.PodSpec{NodeName: o.Spec.NodeName},
			Status: corev1.PodStatus{Conditions: o.Status.Conditions},
		}, nil
	}
	return o, nil
}

func named(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}

// nodeOf returns the name of the node that an object is about.
func nodeOf(o any) string {
	if pod, ok := o.(*corev1.Pod); ok {
		return pod.Spec.NodeName
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return m.GetName()
}

// listen queues the node of every object that comes or changes. One that goes makes no node ready.
func (r *Remover) listen() error {
	handler := workloop.OnChange(func(_, now any) {
		if now != nil {
			r.queue.Add(nodeOf(now))
		}
	})
	for _, informer := range []cache.SharedIndexInformer{r.nodes, r.csiNodes, r.pods} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch nodes: %w", err)
		}
	}
	return nil
}
