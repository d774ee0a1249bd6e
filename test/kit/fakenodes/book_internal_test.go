package fakenodes

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// made is a pod with few fields.
func made(uid types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func ready(pod *corev1.Pod) { setStarted(pod, nil) }

func failing(pod *corev1.Pod) { setStarted(pod, errors.New("broken")) }

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

func TestBook(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		write func(*book)
		want  []string
	}{
		"a pod's life": {
			func(b *book) {
				b.OnAdd(made("1"), false)
				for _, change := range []func(*corev1.Pod){ready, failing, ready} {
					b.OnUpdate(nil, made("1", change))
				}
				b.OnUpdate(nil, made("1", ready, deleting))
				b.OnDelete(made("1", ready, deleting))
			},
			[]string{"created 1", "ready 1", "unready 1", "ready 1", "deleting 1", "deleted 1"},
		},
		"what changes nothing is not noted": {
			func(b *book) {
				b.OnAdd(made("1", ready), false)
				b.OnUpdate(nil, made("1", ready))
			},
			[]string{"created 1", "ready 1"},
		},
		"another pod of the same name": {
			func(b *book) {
				b.OnAdd(made("1", ready), false)
				b.OnUpdate(nil, made("2"))
			},
			[]string{"created 1", "ready 1", "deleted 1", "created 2"},
		},
		"what is gone after a list": {
			func(b *book) {
				b.OnAdd(made("1"), true)
				b.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: made("1")})
			},
			[]string{"created 1", "deleted 1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook(func(types.NamespacedName) {})
			test.write(b)
			var got []string
			for _, e := range b.journalOf("ns") {
				got = append(got, fmt.Sprintf("%s %s", e.What, e.Pod.UID))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("journal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFewestReady(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	journal := func(entries ...string) Journal {
		var j Journal
		for i, e := range entries {
			var what, uid string
			if _, err := fmt.Sscan(e, &what, &uid); err != nil {
				t.Fatal(err)
			}
			j = append(j, Entry{At: begin.Add(time.Duration(i) * time.Second), What: What(what), Pod: made(types.UID(uid))})
		}
		return j
	}
	two := []string{"created 1", "ready 1", "created 2", "ready 2"} // The moment is that of the last.
	tests := map[string]struct {
		then   []string
		fewest int
	}{
		"nothing since":                 {nil, 2},
		"one more":                      {[]string{"created 3", "ready 3"}, 2},
		"one is replaced before":        {[]string{"deleting 1", "deleted 1", "created 3", "ready 3"}, 1},
		"one is replaced afterwards":    {[]string{"created 3", "ready 3", "deleting 1", "deleted 1"}, 2},
		"one fails while another comes": {[]string{"unready 1", "created 3", "ready 3", "ready 1"}, 1},
		"all are killed at once":        {[]string{"deleted 1", "deleted 2"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since := begin.Add(time.Duration(len(two)-1) * time.Second)
			j := journal(slices.Concat(two, test.then)...)
			if got := j.FewestReady(since); got != test.fewest {
				t.Errorf("fewest = %d, want %d", got, test.fewest)
			}
			if got := len(j.Since(since)); got != len(test.then) {
				t.Errorf("%d entries since then, want %d", got, len(test.then))
			}
		})
	}
}
