package source_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// answerLimit is how long a request that is no watch may go without an answer.
const answerLimit = time.Minute

// pit is an API server that lets requests fall into a hole: their connection stands, and no answer comes. The library's
// own client reaches it, without a network.
type pit struct {
	mu       sync.Mutex // Guards the fields below.
	swallows func(verb, name string) bool
	asked    map[string]int // By verb and name.
}

// RoundTrip is [http.RoundTripper].
func (p *pit) RoundTrip(r *http.Request) (*http.Response, error) {
	verb := "list"
	if r.URL.Query().Get("watch") == "true" {
		verb = "watch"
	}
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	p.mu.Lock()
	p.asked[verb+" "+name]++
	swallowed := p.swallows(verb, name)
	p.mu.Unlock()
	if swallowed {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	response := &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: silence{r.Context(), make(chan struct{})},
	}
	if verb == "list" {
		list, err := json.Marshal(corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1", ResourceVersion: "1"}}},
		})
		response.Body = io.NopCloser(bytes.NewReader(list))
		return response, err
	}
	return response, nil
}

// silence is the body of a watch that brings nothing until it is given up.
type silence struct {
	ctx    context.Context
	closed chan struct{}
}

func (s silence) Read([]byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
}

func (s silence) Close() error {
	close(s.closed)
	return nil
}

func (p *pit) swallow(swallows func(verb, name string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows = swallows
}

func (p *pit) count(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[what]
}

// brink is a cache over a pit, with somebody who looks after its watches.
type brink struct {
	*testing.T
	*pit
	*source.Cache
}

// onBrink runs a test on one, in a bubble.
func onBrink(t *testing.T, test func(b *brink)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pit{asked: map[string]int{}, swallows: func(string, string) bool { return false }}
		front := newFront(t)
		client := front.client(p)
		ctx, stop := context.WithCancel(t.Context())
		c := source.New(ctx, source.Config{
			Client:  func(access.Identity) (rest.Interface, error) { return client, nil },
			Types:   front.types,
			Allow:   func(context.Context, access.Identity, api.Ref) error { return nil },
			Denies:  func(context.Context, access.Identity, api.Ref) (bool, error) { return true, nil },
			Changed: func(source.Key) {}, Recheck: recheck, Room: roomy(),
		})
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) }) // It returns nil.
		t.Cleanup(func() {
			stop()
			running.Wait()
			c.Wait()
		})
		test(&brink{t, p, c})
	})
}

// use takes the ref.
func (b *brink) use(ref api.Ref) {
	b.Helper()
	release, err := b.Acquire(byDriver(ref))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	synctest.Wait()
}

// TestAListThatIsNeverAnswered is given up and asked for again, and keeps no other object waiting: faults 24 and 30.
func TestAListThatIsNeverAnswered(t *testing.T) {
	onBrink(t, func(b *brink) {
		b.swallow(func(verb, name string) bool { return verb == "list" && name == web.Name })
		b.use(web)
		b.use(other)
		if got := b.Get(byDriver(other)); !got.Found || got.Err != nil {
			t.Errorf("the other object = %+v, want it found at once", got)
		}
		pass(answerLimit - time.Second)
		if got := b.Get(byDriver(web)); got.Synced || got.Err != nil || b.count("list web") != 1 {
			t.Errorf("before the time is over: %+v after %d lists, want nothing known", got, b.count("list web"))
		}
		pass(2 * time.Second)
		if got := b.Get(byDriver(web)); got.Synced || !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("when it is over: %+v, want that it took too long", got)
		}
		pass(10 * time.Minute)
		if got := b.count("list web"); got < 8 || got > 12 {
			t.Errorf("%d lists in eleven minutes, want about one a minute", got)
		}
		b.swallow(func(string, string) bool { return false })
		pass(answerLimit + longestSilence)
		if got := b.Get(byDriver(web)); !got.Found || got.Err != nil {
			t.Errorf("once it is answered: %+v, want it found", got)
		}
	})
}

// TestAWatchThatIsNeverAnswered is given up, and the object listed instead, as often as a dead watch is replaced: fault 24.
func TestAWatchThatIsNeverAnswered(t *testing.T) {
	onBrink(t, func(b *brink) {
		b.swallow(func(verb, _ string) bool { return verb == "watch" })
		b.use(web)
		pass(shortestPatience - time.Second)
		if got := b.count("watch web"); got != 1 {
			t.Errorf("%d watches were asked for, want one that is waited for", got)
		}
		pass(time.Hour - shortestPatience)
		if got := b.count("list web"); got < 18 || got > 25 {
			t.Errorf("%d lists in an hour, want one in about three minutes", got)
		}
		if got := b.Get(byDriver(web)); !got.Found || got.Err != nil {
			t.Errorf("it is %+v, want it found, and no trouble: it is listed", got)
		}
		b.swallow(func(string, string) bool { return false })
		pass(longestPatience)
		lists := b.count("list web")
		pass(25 * time.Minute)
		if got := b.count("list web") - lists; got > 4 {
			t.Errorf("%d lists in 25 minutes once watches are answered, want fewer and fewer", got)
		}
	})
}

// TestADeadStreamOfTheLibraryIsReplaced: stopping the library's own watch ends what waits for its next event.
func TestADeadStreamOfTheLibraryIsReplaced(t *testing.T) {
	onBrink(t, func(b *brink) {
		b.use(web)
		pass(longestPatience)
		if lists, watches := b.count("list web"), b.count("watch web"); lists != 2 || watches != 2 {
			t.Errorf("%d lists and %d watches; want one of each to replace the first", lists, watches)
		}
	})
}
