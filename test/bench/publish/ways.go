package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// way is one of making a volume.
type way struct {
	key, name string
	// begin does what is not measured, for the n-th volume.
	begin func(n int) (attempt, error)
}

// attempt is a volume that is going to be made, and taken away.
type attempt struct {
	make, drop func(ctx context.Context) error
}

// ways returns the floor and what is compared with it.
func (b *bench) ways(s size) []way {
	content := []byte(s.content())
	nothing := func(context.Context) error { return nil }
	return []way{
		{"floor", "bare system calls (floor)", func(n int) (attempt, error) {
			target := floorTarget(b.driver.Dir(), n)
			return attempt{
				make: func(context.Context) error { return raw(target, content) },
				drop: func(context.Context) error { return drop(target) },
			}, nil
		}},
		{"empty", "an empty call", func(int) (attempt, error) {
			return attempt{make: func(ctx context.Context) error {
				_, err := b.driver.Node.Node().NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
				return err
			}, drop: nothing}, nil
		}},
		{"equal", "liveconfig, an equal volume is live", func(int) (attempt, error) {
			return b.attempt(s.shared(), nil)
		}},
		{"shared", "liveconfig, object already watched", func(n int) (attempt, error) {
			// Few others have this mode, so that the volume has its own files.
			return b.attempt(s.shared(), map[string]string{"defaultMode": fmt.Sprintf("%04o", 0o400+n%0o200)})
		}},
		{"cold", "liveconfig, object that nobody has read", func(n int) (attempt, error) {
			return b.attempt(s.single(n), nil)
		}},
	}
}

// attempt returns a volume of a pod that the API server need not know, and makes the directories that a kubelet makes.
func (b *bench) attempt(configMap string, attributes map[string]string) (attempt, error) {
	pod := driver.Pod(namespace, configMap)
	request := fakekubelet.PublishRequest(b.driver.KubeletDir(), pod, pod.Spec.Volumes[0])
	maps.Copy(request.GetVolumeContext(), attributes)
	return attempt{
		make: func(ctx context.Context) error {
			_, err := b.driver.Node.Node().NodePublishVolume(ctx, request)
			return err
		},
		drop: func(ctx context.Context) error { return b.driver.UnpublishAll(ctx, pod) },
	}, os.MkdirAll(filepath.Dir(request.GetTargetPath()), 0o750)
}

// maker makes n volumes by a way, from the first on, returns how long each took, and takes them away.
type maker func(ctx context.Context, w way, first, n int) ([]int64, error)

// rounds makes n volumes by one way after the other, again and again, and adds a run to what each way took. The ways take
// turns, so that whatever else the machine does falls on all of them.
func rounds(ctx context.Context, ways []way, count, n int, do maker, runs map[string][][]int64) error {
	all := map[string][]int64{}
	for round := range count {
		for _, w := range ways {
			took, err := do(ctx, w, round*n, n)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all[w.key] = append(all[w.key], took...)
		}
	}
	for _, w := range ways {
		runs[w.key] = append(runs[w.key], all[w.key])
	}
	return nil
}

// oneByOne makes each volume when the one before is gone.
func oneByOne(ctx context.Context, w way, first, n int) ([]int64, error) {
	var all []int64
	for i := range n {
		a, err := w.begin(first + i)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := a.make(ctx); err != nil {
			return nil, err
		}
		all = append(all, time.Since(begin).Nanoseconds())
		if err := a.drop(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// atOnce makes all volumes at the same time.
func atOnce(ctx context.Context, w way, first, n int) ([]int64, error) {
	attempts := make([]attempt, n)
	for i := range attempts {
		var err error
		if attempts[i], err = w.begin(first + i); err != nil {
			return nil, err
		}
	}
	took, errs := make([]int64, n), make([]error, 2*n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i, a := range attempts {
		group.Go(func() {
			<-start
			begin := time.Now()
			errs[i] = a.make(ctx)
			took[i] = time.Since(begin).Nanoseconds()
		})
	}
	close(start)
	group.Wait()
	for i, a := range attempts {
		errs[n+i] = a.drop(ctx)
	}
	return took, errors.Join(errs...)
}
