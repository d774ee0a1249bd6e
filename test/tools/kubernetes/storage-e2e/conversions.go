package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/test/e2e/framework"
)

// leftAnnotation of a pod says which volumes the driver's policy has left to the kubelet, and why.
const leftAnnotation = "liveconfig.internal/left-in-tree"

// conversions are what the driver's policy has made of the pods of a run.
type conversions struct {
	mu        sync.Mutex // Guards the fields below.
	pods      map[string]bool
	converted int
	// left are the volumes that the driver should have had.
	left        []string
	rightlyLeft int
}

// watchConversions looks at all pods until the tests are over. Then it fails unless each volume of a ConfigMap or Secret was
// the driver's, shared a projection with something that only the kubelet projects, or has a path that the driver refuses.
func watchConversions(client kubernetes.Interface) {
	c := &conversions{pods: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { c.add(o.(*corev1.Pod)) },
	})
	framework.ExpectNoError(err, "watch pods")
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	ginkgo.DeferCleanup(func() {
		stop()
		factory.Shutdown()
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Printf("the driver had %d volumes of %d pods; the kubelet had %q, and %d that only it can have\n", c.converted, len(c.pods), c.left, c.rightlyLeft)
		if c.converted == 0 {
			ginkgo.Fail("no volume was the driver's")
		}
		for _, text := range c.left {
			ginkgo.Fail("a volume was left to the kubelet: " + text)
		}
	})
}

func (c *conversions) add(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := string(pod.UID); c.pods[id] || metav1.GetControllerOf(pod) != nil {
		return
	}
	c.pods[string(pod.UID)] = true
	for _, v := range pod.Spec.Volumes {
		if v.CSI != nil && v.CSI.Driver == driverName {
			c.converted++
		}
	}
	switch text := pod.Annotations[leftAnnotation]; {
	case text == "":
	case strings.Contains(text, "downwardAPI"), hasPathWithLines(pod):
		c.rightlyLeft++
	default:
		c.left = append(c.left, pod.Namespace+"/"+pod.Name+": "+text)
	}
}

// hasPathWithLines reports whether an item of a Secret has a line break in its path, as a test of missing keys has it. The
// driver takes no control characters in paths.
func hasPathWithLines(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && slices.ContainsFunc(v.Secret.Items, func(i corev1.KeyToPath) bool {
			return strings.Contains(i.Path, "\n")
		})
	})
}
