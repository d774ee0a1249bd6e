package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// mounted is what the kubelet counts of the volumes that it has made, by the kind of volume.
type mounted struct{ seconds, number float64 }

// kubelet has pods started and returns how long the kubelet took to make their volumes.
func (b *bench) kubelet(ctx context.Context) (report.Table, error) {
	before, err := b.mounts(ctx)
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
	after, err := b.mounts(ctx)
	if err != nil {
		return report.Table{}, err
	}
	table := report.Table{Title: "The kubelet's own account, ConfigMap of 1 KiB", Header: []string{"kind of volume", "volumes", "mean"}}
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		number := after[kind].number - before[kind].number
		if number == 0 {
			continue
		}
		mean := (after[kind].seconds - before[kind].seconds) / number
		table.Rows = append(table.Rows, []string{kind, fmt.Sprint(number), report.Nanoseconds.Format(mean * 1e9)})
	}
	return table, b.cfg.Site.DropPods(ctx, namespace)
}

// mounts reads the kubelet's metrics.
func (b *bench) mounts(ctx context.Context) (map[string]mounted, error) {
	path := "/api/v1/nodes/" + realnode.NodeName + "/proxy/metrics"
	text, err := b.cfg.Site.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's metrics: %w", err)
	}
	return parseMounts(string(text))
}

// parseMounts returns what metrics tell of volumes that were made, by the kind of volume.
func parseMounts(metrics string) (map[string]mounted, error) {
	const histogram = "storage_operation_duration_seconds_"
	all := map[string]mounted{}
	for l := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(l), histogram)
		if !ok || strings.HasPrefix(rest, "bucket{") || !strings.Contains(rest, `operation_name="volume_mount"`) || !strings.Contains(rest, `status="success"`) {
			continue
		}
		_, kind, found := strings.Cut(rest, `volume_plugin="`)
		kind, text, ended := strings.Cut(kind, `"} `)
		value, err := strconv.ParseFloat(text, 64)
		if !found || !ended || err != nil {
			return nil, errors.Join(fmt.Errorf("the kubelet's metrics have the line %q", l), err)
		}
		m := all[kind]
		switch {
		case strings.HasPrefix(rest, "sum{"):
			m.seconds = value
		case strings.HasPrefix(rest, "count{"):
			m.number = value
		}
		all[kind] = m
	}
	return all, nil
}
