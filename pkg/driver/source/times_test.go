package source_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSnapshotSaysSinceWhenItIsNotCurrent: since the first of consecutive errors, the same or
// others.
func TestSnapshotSaysSinceWhenItIsNotCurrent(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		key := b.key(web)
		defer b.acquire(web)()
		b.settle()
		if got := b.Get(key).Failing; !got.IsZero() {
			b.t.Errorf("Failing = %s, want none", got)
		}
		began := time.Now()
		b.answer(unavailable(), unavailable())
		b.hangUp()
		pass(time.Minute)
		b.answer(refused(), refused())
		pass(time.Hour)
		if got := b.Get(key).Failing; got.Before(began) || got.Sub(began) > longestSilence {
			b.t.Errorf("Failing = %s, want about %s", got, began)
		}
		b.answer(nil, nil)
		pass(longestSilence)
		if got := b.Get(key).Failing; !got.IsZero() {
			b.t.Errorf("Failing = %s when all is well, want none", got)
		}
	})
}

// TestContentSaysWhenTheObjectWasChanged: at the newest time of its managed fields.
func TestContentSaysWhenTheObjectWasChanged(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		b.putMap(configMap(web, "1"))
		b.settle()
		if got := b.Get(b.key(web)).Content.ChangedAt; !got.IsZero() {
			b.t.Errorf("ChangedAt = %s of an object that does not say, want none", got)
		}
		newest := time.Date(2026, 11, 21, 9, 0, 5, 0, time.UTC)
		o := configMap(web, "2")
		for _, at := range []time.Time{newest.Add(-time.Hour), newest, newest.Add(-time.Minute)} {
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: at.String(), Time: &metav1.Time{Time: at}})
		}
		o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: "timeless"})
		b.putMap(o)
		b.settle()
		if got := b.Get(b.key(web)).Content.ChangedAt; !got.Equal(newest) {
			b.t.Errorf("ChangedAt = %s, want %s", got, newest)
		}
	})
}
