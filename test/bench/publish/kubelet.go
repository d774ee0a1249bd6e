package publish

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/metrics"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// mounted is what the kubelet counts of the volumes that it has made.
type mounted struct{ seconds, number float64 }

// kubelet has pods started and returns how long the kubelet took to make their volumes.
func (b *bench) kubelet(ctx context.Context) (report.Table, error) {
	kinds := []string{"kubernetes.io/configmap", "kubernetes.io/csi:" + node.DriverName}
	before, err := b.mounts(ctx, kinds)
	if err != nil {
		return report.Table{}, err
	}
	pods := make([]*corev1.Pod, 0, b.cfg.Pods)
	for i := range b.cfg.Pods {
		pods = append(pods, site.PodWithBoth(namespace, fmt.Sprintf("pod-%d", i), sizes()[0].shared()))
	}
	if _, err := b.cfg.Site.StartPods(ctx, pods); err != nil {
		return report.Table{}, err
	}
	after, err := b.mounts(ctx, kinds)
	if err != nil {
		return report.Table{}, err
	}
	table := report.Table{Title: "The kubelet's own account, ConfigMap of 1 KiB", Header: []string{"kind of volume", "volumes", "mean"}}
	for i, kind := range kinds {
		number := after[i].number - before[i].number
		if number == 0 {
			continue
		}
		mean := (after[i].seconds - before[i].seconds) / number
		table.Rows = append(table.Rows, []string{kind, fmt.Sprint(number), report.Nanoseconds.Format(mean * 1e9)})
	}
	return table, b.cfg.Site.DropPods(ctx, namespace)
}

// mounts reads the kubelet's metrics, which have nothing of a kind before its first volume.
func (b *bench) mounts(ctx context.Context, kinds []string) ([]mounted, error) {
	path := "/api/v1/nodes/" + realnode.NodeName + "/proxy/metrics"
	text, err := b.cfg.Site.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's metrics: %w", err)
	}
	all := make([]mounted, len(kinds))
	for i, kind := range kinds {
		for name, to := range map[string]*float64{"sum": &all[i].seconds, "count": &all[i].number} {
			*to, err = metrics.Sum(string(text), "storage_operation_duration_seconds_"+name,
				`operation_name="volume_mount"`, `status="success"`, `volume_plugin="`+kind+`"`)
			if err != nil && !errors.Is(err, metrics.ErrNone) {
				return nil, err
			}
		}
	}
	return all, nil
}
