package scale

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/scale/fleet"
)

// manyEvents is enough for a mean.
const manyEvents = 300

// measureEvents returns the cluster's processor time for an Event as the driver makes one of each volume that it has updated.
func (b *bench) measureEvents(ctx context.Context) (time.Duration, error) {
	if err := b.ground.furnish(ctx, fleet.Driver, 0, 1, 0); err != nil {
		return 0, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.ground.kubeconfigs(fleet.Driver), "0"))
	if err != nil {
		return 0, err
	}
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	before, err := b.ground.use()
	if err != nil {
		return 0, err
	}
	for i := range manyEvents {
		now := metav1.Now()
		_, err := client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d.0123456789abcdef", i)},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("web-%d", i), FieldPath: "spec.volumes{config}",
			},
			Reason: "Updated", Message: "Wrote 3 files of configmap/web that have changed.", Type: corev1.EventTypeNormal,
			Source: corev1.EventSource{Component: "csi.liveconfig.internal", Host: "node"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
	}
	after, err := b.ground.use()
	return after.since(before).sum() / manyEvents, err
}
