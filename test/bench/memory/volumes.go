package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/proc"
)

// creators is how many requests for objects go on at once.
const creators = 8

// createObjects makes the objects with the numbers from one to another.
func createObjects(ctx context.Context, client kubernetes.Interface, namespace, prefix string, from, to, size int) error {
	data := map[string]string{"payload": strings.Repeat("x", size)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for n := from; n < to; n++ {
		group.Go(func() error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(n)}, Data: data}
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// volumes are the volumes of a driver, each of an object of its own.
type volumes struct {
	driver            *driver.Driver
	namespace, prefix string
	pods              []*corev1.Pod
}

// hold publishes volumes until there are n, and returns what the driver takes then.
func (v *volumes) hold(ctx context.Context, n int) (figures, error) {
	for len(v.pods) < n {
		pod := driver.Pod(v.namespace, v.prefix+strconv.Itoa(len(v.pods)))
		if err := v.driver.PublishAll(ctx, pod); err != nil {
			return figures{}, err
		}
		v.pods = append(v.pods, pod)
	}
	heap, err := v.driver.Metric(ctx, "go_memstats_heap_alloc_bytes")
	if err != nil {
		return figures{}, err
	}
	stacks, err := v.driver.Metric(ctx, "go_memstats_stack_inuse_bytes")
	if err != nil {
		return figures{}, err
	}
	goroutines, err := v.driver.Metric(ctx, "go_goroutines")
	if err != nil {
		return figures{}, err
	}
	memory, err := proc.MemoryOf(v.driver.PID())
	return figures{Memory: memory, heap: int64(heap), stacks: int64(stacks), goroutines: int(goroutines)}, err
}

// files returns what the file system of one volume has in memory.
func (v *volumes) files() (int64, error) {
	if len(v.pods) == 0 {
		return 0, errors.New("there is no volume")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(v.driver.Target(v.pods[0], v.pods[0].Spec.Volumes[0].Name), &fs); err != nil {
		return 0, fmt.Errorf("look at a volume: %w", err)
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, nil //nolint:gosec // A volume is small.
}

func (v *volumes) close(ctx context.Context) error {
	var errs []error
	for _, pod := range v.pods {
		errs = append(errs, v.driver.UnpublishAll(context.WithoutCancel(ctx), pod))
	}
	return errors.Join(append(errs, v.driver.Close())...)
}
