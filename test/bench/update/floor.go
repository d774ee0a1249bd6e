package update

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// floor is a bare watch of client-go: it decodes the object and does nothing else. No driver that watches can be faster.
type floor struct {
	watch watch.Interface
	done  chan struct{}

	mu     sync.Mutex // Guards the fields below.
	wanted map[string]wanted
	broken error
}

// wanted is a version of an object that is waited for.
type wanted struct {
	version int
	seen    chan<- sighting
}

// longest is more than a measurement takes. The API server ends watches that do not ask for a time after half an hour or more.
const longest = 6 * time.Hour

// newFloor watches the objects of a namespace, or the one with a name. The caller closes it.
func newFloor(ctx context.Context, client kubernetes.Interface, namespace, name string) (*floor, error) {
	options := metav1.ListOptions{}
	if name != "" {
		options.FieldSelector = "metadata.name=" + name
	}
	return newFloorOf(ctx, client, namespace, options)
}

// newFloorOf watches the objects of a namespace that options select. The caller closes it.
func newFloorOf(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (*floor, error) {
	options.TimeoutSeconds = new(int64(longest.Seconds()))
	w, err := client.CoreV1().ConfigMaps(namespace).Watch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open a bare watch: %w", err)
	}
	f := &floor{watch: w, done: make(chan struct{}), wanted: map[string]wanted{}}
	go func() {
		defer close(f.done)
		f.run()
	}()
	return f, nil
}

func (f *floor) close() {
	f.watch.Stop()
	<-f.done
}

// expect returns a channel that gets, once, the moment at which a version of an object was known.
func (f *floor) expect(name string, version int) <-chan sighting {
	seen := make(chan sighting, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		seen <- sighting{err: f.broken}
		return seen
	}
	f.wanted[name] = wanted{version, seen}
	return seen
}

func (f *floor) run() {
	for event := range f.watch.ResultChan() {
		at := time.Now()
		if cm, ok := event.Object.(*corev1.ConfigMap); ok {
			f.take(cm, at)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = fmt.Errorf("the bare watch has ended")
	for _, w := range f.wanted {
		w.seen <- sighting{err: f.broken}
	}
	f.wanted = nil
}

func (f *floor) take(cm *corev1.ConfigMap, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, ok := f.wanted[cm.Name]
	if !ok {
		return
	}
	version, err := versionOf(cm)
	if err == nil && version < w.version {
		return
	}
	w.seen <- sighting{at, err}
	delete(f.wanted, cm.Name)
}
