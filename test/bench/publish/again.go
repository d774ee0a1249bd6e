package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// again is what it costs to publish volumes that are there, as a kubelet does over and over.
type again struct {
	volumes []int     // How many there are, from the smallest number on.
	cells   []onceAll // By the numbers of volumes.
}

// onceAll is what it costs to publish all volumes once more, by run.
type onceAll struct {
	latency   [][]int64 // Of each call.
	processor []float64 // Of the driver, in nanoseconds for a call.
}

// measureAgain gives a separate driver more and more volumes.
func (b *bench) measureAgain(ctx context.Context) (_ *again, err error) {
	d, err := driver.Start(ctx, b.cfg.Site)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	a := &again{volumes: b.cfg.Volumes}
	var pods []*corev1.Pod
	for _, n := range a.volumes {
		for len(pods) < n {
			pod := driver.Pod(namespace, sizes()[0].shared())
			if err := d.PublishAll(ctx, pod); err != nil {
				return nil, err
			}
			pods = append(pods, pod)
		}
		var cell onceAll
		for range b.cfg.Runs {
			if err := cell.run(ctx, d, pods); err != nil {
				return nil, fmt.Errorf("publish %d volumes again: %w", n, err)
			}
		}
		a.cells = append(a.cells, cell)
		b.cfg.Site.Say("publish again: %s of processor time a call, with %d volumes", report.Nanoseconds.Format(cell.processorTime()), n)
	}
	return a, nil
}

func (o *onceAll) run(ctx context.Context, d *driver.Driver, pods []*corev1.Pod) error {
	before, err := proc.WorkOf(d.PID())
	if err != nil {
		return err
	}
	var latency []int64
	for range max(1, 100/len(pods)) { // A run of few has samples enough.
		for _, pod := range pods {
			request := fakekubelet.PublishRequest(d.KubeletDir(), pod, pod.Spec.Volumes[0])
			begin := time.Now()
			if _, err := d.Node.Node().NodePublishVolume(ctx, request); err != nil {
				return err
			}
			latency = append(latency, time.Since(begin).Nanoseconds())
		}
	}
	after, err := proc.WorkOf(d.PID())
	if err != nil {
		return err
	}
	o.latency = append(o.latency, latency)
	o.processor = append(o.processor, float64(after.Since(before).CPU)/float64(len(latency)))
	return nil
}

// processorTime is that of a call: the median of the runs.
func (o *onceAll) processorTime() float64 { return report.Median(o.processor) }

func (a *again) group() report.Group {
	g := report.Group{Key: "again", Title: "A volume of 1 KiB that is there, published again"}
	for i, n := range a.volumes {
		g.Series = append(g.Series, report.Latencies(fmt.Sprintf("again-%d", n), fmt.Sprintf("liveconfig, with %d volumes", n), a.cells[i].latency))
	}
	return g
}

// points are what it costs to publish all volumes again, in seconds of processor time.
func (a *again) points() []report.Point {
	points := make([]report.Point, 0, len(a.volumes))
	for i, n := range a.volumes {
		points = append(points, report.Point{X: float64(n), Y: float64(n) * a.cells[i].processorTime() / 1e9})
	}
	return points
}

func (a *again) chart() report.Chart {
	return report.Chart{
		Key: "again-growth", Title: "Processor time to publish all volumes of a node again, which a kubelet does in about 75 seconds",
		X: "volumes", Y: "seconds", Curves: []report.Curve{{Name: "liveconfig", Points: a.points()}},
	}
}

func (a *again) table() report.Table {
	t := report.Table{Title: "Processor time of a volume that is there, published again", Header: []string{"volumes", "a call", "all volumes once"}}
	for i, p := range a.points() {
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(a.volumes[i]), report.Nanoseconds.Format(a.cells[i].processorTime()), report.Nanoseconds.Format(p.Y * 1e9),
		})
	}
	return t
}

// repeat compares a call for a volume that is there with an empty one, which is in the other group.
func (a *again) repeat(g report.Group) report.Target {
	return report.Target{
		Key: "publish-again", What: "publish of a volume of 1 KiB that is there to an empty call, p50",
		Value: a.group().Series[0].Ratio(g.Series[1], 50), Bound: 1.3,
	}
}

func (a *again) target() report.Target {
	return report.Growth("growth-publish-again", "growth: processor time to publish all volumes again, by their number", a.points())
}
