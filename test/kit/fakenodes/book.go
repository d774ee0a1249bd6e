package fakenodes

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// book is what the watch of pods is written into: the pods as they are, and the journal of how they came to be so.
type book struct {
	// changed is called with the pod that has changed.
	changed func(types.NamespacedName)

	mu       sync.Mutex // Guards what follows.
	pods     map[types.NamespacedName]*corev1.Pod
	journals map[string]Journal
	// turn is closed and replaced with each change, for waiting goroutines.
	turn chan struct{}
}

var _ cache.ResourceEventHandler = (*book)(nil)

func newBook(changed func(types.NamespacedName)) *book {
	return &book{
		changed: changed, pods: make(map[types.NamespacedName]*corev1.Pod), journals: make(map[string]Journal),
		turn: make(chan struct{}),
	}
}

// OnAdd takes a pod, as the watch calls it.
func (b *book) OnAdd(o any, _ bool) { b.write(b.put, o) }

// OnUpdate takes a pod that is known, or another one of its name.
func (b *book) OnUpdate(_, o any) { b.write(b.put, o) }

// OnDelete drops a pod, of which the watch may have missed the last version.
func (b *book) OnDelete(o any) {
	if missed, is := o.(cache.DeletedFinalStateUnknown); is {
		o = missed.Obj
	}
	b.write(b.drop, o)
}

func (b *book) write(how func(*corev1.Pod), o any) {
	pod, isPod := o.(*corev1.Pod)
	if !isPod {
		return
	}
	b.mu.Lock()
	how(pod)
	close(b.turn)
	b.turn = make(chan struct{})
	b.mu.Unlock()
	b.changed(keyOf(pod))
}

// put is called with the lock held. A pod of the same name may be another.
func (b *book) put(pod *corev1.Pod) {
	pod.ManagedFields = nil
	key := keyOf(pod)
	before := b.pods[key]
	if before != nil && before.UID != pod.UID {
		b.note(Deleted, before)
		before = nil
	}
	b.pods[key] = pod
	if before == nil {
		b.note(Created, pod)
		before = &corev1.Pod{}
	}
	switch {
	case pod.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		b.note(Deleting, pod)
	case IsReady(pod) && !IsReady(before):
		b.note(Ready, pod)
	case !IsReady(pod) && IsReady(before):
		b.note(Unready, pod)
	}
}

// drop is called with the lock held.
func (b *book) drop(pod *corev1.Pod) {
	delete(b.pods, keyOf(pod))
	b.note(Deleted, pod)
}

func (b *book) note(what What, pod *corev1.Pod) {
	b.journals[pod.Namespace] = append(b.journals[pod.Namespace], Entry{At: time.Now(), What: what, Pod: pod})
}

// await returns when a condition holds, which is looked at with the lock held, now and with each change.
func (b *book) await(ctx context.Context, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		b.mu.Lock()
		enough, turn := holds(), b.turn
		b.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-turn:
		}
	}
}

func (b *book) get(key types.NamespacedName) *corev1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods[key]
}

func (b *book) podsOf(namespace string) []*corev1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list(namespace)
}

// list is called with the lock held.
func (b *book) list(namespace string) []*corev1.Pod {
	var found []*corev1.Pod
	for key, pod := range b.pods {
		if key.Namespace == namespace {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return found
}

func (b *book) journalOf(namespace string) Journal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.journals[namespace])
}
