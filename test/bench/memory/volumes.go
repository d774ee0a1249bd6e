package memory

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// published are the volumes of a driver: of an object each, or all of one.
type published struct {
	driver    *driver.Driver
	namespace string
	kind      kind
	pods      []*corev1.Pod
}

// hold publishes volumes until there are n, and looks: from then on the driver has what it takes to answer.
func (p *published) hold(ctx context.Context, n int) error {
	for i := len(p.pods); i < n; i++ {
		object := i
		if p.kind == volumes {
			object = 0
		}
		pod := driver.Pod(p.namespace, prefix+strconv.Itoa(object))
		if err := p.driver.PublishAll(ctx, pod); err != nil {
			return err
		}
		p.pods = append(p.pods, pod)
	}
	_, err := p.look(ctx)
	return err
}

// look asks for metrics last: to answer takes memory.
func (p *published) look(ctx context.Context) (f figures, err error) {
	if f.Memory, err = proc.MemoryOf(p.driver.PID()); err != nil {
		return figures{}, err
	}
	for _, m := range []struct {
		name string
		to   *float64
	}{{"go_memstats_heap_alloc_bytes", &f.heap}, {"go_memstats_stack_inuse_bytes", &f.stacks}, {"go_goroutines", &f.goroutines}} {
		if *m.to, err = p.driver.Metric(ctx, m.name); err != nil {
			return figures{}, err
		}
	}
	return f, nil
}

// files returns what the file system of one volume has in memory.
func (p *published) files() (int64, error) {
	if len(p.pods) == 0 {
		return 0, errors.New("there is no volume")
	}
	return p.driver.Files(p.pods[0])
}

func (p *published) close(context.Context) error { return p.driver.Close() }
