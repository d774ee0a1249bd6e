package source_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/content"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

func TestAnObjectsLife(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		b.wantNow(known{Synced: true}, 1) // That it does not exist is news.

		began := time.Now()
		first := b.putMap(configMap(web, "1"))
		b.wantNow(holding(first), 1)
		if s := b.Get(byDriver(web)); !s.Changed.Equal(began) || s.Content.Ref != web {
			t.Errorf("Changed = %s, and the ref is %s; want %s and %s", s.Changed, s.Content.Ref, began, web)
		}

		second := b.putMap(configMap(web, "2"))
		b.wantNow(holding(second), 1)

		b.Remove(web)
		b.wantNow(known{Synced: true}, 1)

		third := b.putMap(configMap(web, "2"))
		if third.UID == second.UID {
			t.Fatal("the cluster made another object with the same UID")
		}
		b.wantNow(holding(third), 1)

		if diff := cmp.Diff([]string{"list", "watch"}, b.Requested(web)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestSecretsAndOtherNamespaces keeps objects apart that share a name. The namespace is part of
// what an object is (rule 19).
func TestSecretsAndOtherNamespaces(t *testing.T) {
	bubble(t, func(b *bench) {
		secret := api.Ref{Kind: api.Secret, Namespace: "default", Name: "web"}
		shared := api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "web"}
		for _, ref := range []api.Ref{web, secret, shared} {
			defer b.acquire(ref)()
		}
		b.settle()
		b.Put(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: map[string][]byte{"k": []byte("secret")},
		})
		b.putMap(configMap(shared, "shared"))
		b.settle()
		for ref, want := range map[api.Ref]map[string]string{web: {}, secret: {"k": "secret"}, shared: {"k": "shared"}} {
			if diff := cmp.Diff(want, b.known(ref).Data); diff != "" {
				t.Errorf("data of %s (-want +got):\n%s", ref, diff)
			}
		}
		b.wantWatches(secret, 1, 3)
	})
}

// TestDataAndBinaryDataOfAConfigMap has both kinds of values in one set of keys, byte for byte
// (rules 2, 16). The object was changed at the newest time of its managed fields.
func TestDataAndBinaryDataOfAConfigMap(t *testing.T) {
	t.Parallel()
	newest := time.Date(2026, 11, 21, 9, 0, 5, 0, time.UTC)
	o := configMap(web, "text")
	o.Data["empty"], o.Data["nul"] = "", "a\x00b"
	o.BinaryData = map[string][]byte{"k": []byte("shadowed"), "binary": {0xff, 0xfe}}
	want := api.Content{Ref: web, Data: map[string][]byte{"k": []byte("text"), "empty": {}, "nul": []byte("a\x00b"), "binary": {0xff, 0xfe}}}
	if diff := cmp.Diff(want, content.OfConfigMap(o)); diff != "" {
		t.Errorf("without managed fields (-want +got):\n%s", diff)
	}
	for _, at := range []*metav1.Time{new(metav1.NewTime(newest.Add(-time.Hour))), new(metav1.NewTime(newest)), new(metav1.NewTime(newest.Add(-time.Minute))), nil} {
		o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Time: at})
	}
	want.ChangedAt = newest
	if diff := cmp.Diff(want, content.OfConfigMap(o)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

// TestNotSyncedIsNotNotFound: before the API server has answered nothing is known, however long
// it takes. This is rule 58.
func TestNotSyncedIsNotNotFound(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		answer := b.Hold()
		defer b.acquire(web)()
		b.wantAfter(time.Hour, known{}, 0)
		answer()
		b.wantNow(holding(o), 1)
	})
}

// TestTheSameVersionIsNoChange: a list or an event with the known version costs the users nothing.
func TestTheSameVersionIsNoChange(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		b.Send(web, watch.Event{Type: watch.Modified, Object: o.DeepCopy()})
		b.Bookmark(web)
		b.wantChanges(web, 0)
		b.want(web, holding(o))
	})
}

// TestVersionsAreNotOrdered: a restored etcd goes back in time, and so do the objects. Another
// UID with the same version is another object. No content is kept under a name alone (trap 15).
// These are faults 25 and 26.
func TestVersionsAreNotOrdered(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "new"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)

		older := configMap(web, "old")
		older.UID, older.ResourceVersion = "uid-old", "7"
		b.Send(web, watch.Event{Type: watch.Modified, Object: older})
		b.wantNow(holding(older), 1)

		created := configMap(web, "created again")
		created.UID, created.ResourceVersion = "uid-new", "7"
		b.Send(web, watch.Event{Type: watch.Modified, Object: created})
		b.wantNow(holding(created), 1)
	})
}

// TestChangedMayUseTheCache: it is called without a lock.
func TestChangedMayUseTheCache(t *testing.T) {
	bubble(t, func(b *bench) {
		called := 0
		b.onChange(func(key source.Key) {
			if called++; key != byDriver(web) {
				return
			}
			giveBack := b.acquire(other)
			b.acquire(web)()
			if got := string(b.Get(key).Content.Data["k"]); got != "1" {
				t.Errorf("Changed sees %q, want the change", got)
			}
			b.Watches()
			giveBack()
		})
		b.putMap(configMap(web, "1"))
		giveBack := b.acquire(web)
		b.settle()
		if called == 0 {
			t.Error("Changed was not called")
		}
		b.onChange(func(source.Key) { giveBack() }) // The last user leaves from inside.
		b.putMap(configMap(web, "2"))
		b.want(web, known{})
		b.wantWatches(web, 0, 0)
	})
}

func TestAcquireWithoutCredentials(t *testing.T) {
	t.Parallel()
	cause := errors.New("no token")
	c := source.New(source.Config{
		Client:  func(identity.Identity) (rest.Interface, error) { return nil, cause },
		Types:   fakeserver.NewFront(t).Types,
		Changed: func(source.Key) { t.Error("Changed was called") },
	})
	key := source.Key{Identity: identity.Identity{Namespace: "default", ServiceAccount: "runner"}, Ref: cert}
	giveBack, err := c.Acquire(key)
	const want = "acquire secret default/cert as serviceaccount default/runner: no token"
	if giveBack != nil || !errors.Is(err, cause) || err.Error() != want {
		t.Errorf("Acquire = %v, want %s", err, want)
	}
	if got := c.Watches(); got != 0 {
		t.Errorf("Watches = %d, want 0", got)
	}
}
