package objectwatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// many returns refs that are in use.
func (b *bench) many(n int) (refs []api.Ref) {
	b.t.Helper()
	for i := range n {
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("web-", i)}
		b.acquire(ref)
		refs = append(refs, ref)
	}
	b.settle()
	return refs
}

// wantReopened wants a second watch of the ref, which continues from what is known, and returns
// how long after a moment it was requested.
func (b *bench) wantReopened(ref api.Ref, after time.Time) time.Duration {
	b.t.Helper()
	b.WantRequests(ref, "list", "watch", "watch")
	times := b.Times("watch", ref)
	return times[len(times)-1].Sub(after)
}

// TestWatchesThatAreCutOff are opened again within a second, and not all at once: the watches of
// other nodes were cut off too.
func TestWatchesThatAreCutOff(t *testing.T) {
	bubble(t, func(b *bench) {
		refs := b.many(50)
		pass(time.Minute)
		ended := time.Now()
		b.Cut()
		pass(time.Second)
		tenths := map[time.Duration]int{}
		for _, ref := range refs {
			after := b.wantReopened(ref, ended)
			if after < 0 || after > time.Second {
				b.t.Errorf("%s is watched again after %s, want a second at most", ref, after)
			}
			tenths[after/(100*time.Millisecond)]++
		}
		for tenth, n := range tenths {
			if n > len(refs)/2 {
				b.t.Errorf("%d of %d are watched again in tenth %d of the second, want them spread", n, len(refs), tenth)
			}
		}
	})
}

// TestAWatchWhoseTimeIsUp is opened again at once: no two end at the same time.
func TestAWatchWhoseTimeIsUp(t *testing.T) {
	bubble(t, func(b *bench) {
		b.acquire(web)
		b.settle()
		all := b.All()
		lasts := time.Duration(*all[len(all)-1].Opts.TimeoutSeconds) * time.Second
		b.Bookmarks(lasts, web)
		pass(lasts % fakeserver.SentEvery)
		ended := time.Now()
		b.Cut()
		b.settle()
		if after := b.wantReopened(web, ended); after != 0 {
			b.t.Errorf("it is watched again after %s, want at once", after)
		}
	})
}
