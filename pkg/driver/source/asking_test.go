package source_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

const (
	// latency is how long a slow API server takes for each answer.
	latency = 1500 * time.Millisecond
	// served is how long a new object may take there until it is read, whatever else is going on.
	served = 10 * time.Second
	// crowd is how many objects there are besides.
	crowd = 1000
)

// slow is a server that takes its time.
type slow struct{ http.RoundTripper }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(latency):
		return s.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// slowly runs a test of a cache that reaches a slow server as the driver does, and does not run yet.
func slowly(t *testing.T, test func(b *bench)) {
	t.Helper()
	early(t, identity.Driver(), recheck, func(b *bench) {
		b.Wire = flowcontrol.New(4).Transport(slow{b.Server})
		test(b)
	})
}

// numbered returns a ref.
func numbered(namespace string, i int) api.Ref {
	return api.Ref{Kind: api.ConfigMap, Namespace: namespace, Name: fmt.Sprint("object-", i)}
}

// acquireMany acquires so many objects of a namespace.
func (b *bench) acquireMany(namespace string, n int) {
	b.t.Helper()
	for i := range n {
		b.acquire(numbered(namespace, i))
	}
}

// synced returns how many of those objects are known.
func (b *bench) synced(namespace string, of int) (n int) {
	for i := range of {
		if b.Get(b.key(numbered(namespace, i))).Synced {
			n++
		}
	}
	return n
}

// wantServed waits until an object is known.
func (b *bench) wantServed(ref api.Ref) {
	b.t.Helper()
	began := time.Now()
	for !b.Get(b.key(ref)).Synced {
		if time.Since(began) > served {
			b.t.Fatalf("%s is not read after %s", ref, served)
		}
		pass(100 * time.Millisecond)
		b.settle()
	}
}

// TestANewcomerGoesFirst: all watches of a node are opened again at a slow server, and a new pod
// waits for another object. The first read of that object is not delayed, and soon all watches
// are open again. This is a part of fault 30.
func TestANewcomerGoesFirst(t *testing.T) {
	slowly(t, func(b *bench) {
		b.acquireMany("default", crowd)
		b.serve()
		pass(2 * time.Minute)
		if got := b.OpenInAll(); got != crowd {
			t.Fatalf("%d watches are open, want %d", got, crowd)
		}
		b.Cut()
		pass(time.Second)
		b.acquire(numbered("default", crowd))
		b.wantServed(numbered("default", crowd))
		pass(30 * time.Second)
		if got := b.OpenInAll(); got != crowd+1 {
			t.Errorf("%d watches are open again, want %d", got, crowd+1)
		}
	})
}

// TestWhatANewcomerSharesGoesFirst: after a restart the driver reads all objects of live volumes
// again. Those volumes have their files and can wait. An object for which a new pod waits is read
// first.
func TestWhatANewcomerSharesGoesFirst(t *testing.T) {
	slowly(t, func(b *bench) {
		b.acquireMany("default", crowd)
		b.serve()
		last := numbered("default", crowd-1)
		b.acquire(last)
		b.wantServed(last)
		if got := b.synced("default", crowd); got > crowd/2 {
			t.Errorf("%d of %d objects were read before, want few", got, crowd)
		}
	})
}

// TestTenantsDoNotWaitForEachOther: pods of one namespace wait for many objects, and one of
// another namespace for one. This is a part of fault 30.
func TestTenantsDoNotWaitForEachOther(t *testing.T) {
	slowly(t, func(b *bench) {
		b.serve()
		b.acquireMany("many", crowd)
		pass(time.Second)
		b.acquire(numbered("few", 0))
		b.wantServed(numbered("few", 0))
	})
}

// TestNoPublishHasToComeBack: pods of one namespace wait for hundreds of objects, and all are read
// before the first publish gives up. This is a part of fault 30.
func TestNoPublishHasToComeBack(t *testing.T) {
	slowly(t, func(b *bench) {
		const (
			many    = 900
			givesUp = 20 * time.Second
		)
		b.serve()
		b.acquireMany("default", many)
		pass(givesUp)
		if got := b.synced("default", many); got != many {
			t.Errorf("%d of %d objects are read within %s, want all", got, many, givesUp)
		}
	})
}
