package objectwatch_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// longestPoll is the longest time between two reads, for a [poller].
const longestPoll = 20 * time.Second

// poller is a [handler] of an object that is read where it may not be watched.
type poller struct {
	handler

	reads int // How many were reported. Guarded by the handler's lock.
}

// Polled is [objectwatch.Poller].
func (p *poller) Polled(time.Duration) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	return longestPoll
}

func (p *poller) reported() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// Denied is [objectwatch.Poller].
func (*poller) Denied(err error) error { return errors.Join(errors.New("nothing is allowed"), err) }

// poll follows web with a poller.
func (b *bench) poll() *poller {
	p := &poller{}
	b.seen[web] = &p.handler
	f := b.Follower(objectwatch.Target{
		Client: b.client, Kind: b.kinds[web.Kind], Namespace: web.Namespace, Name: web.Name, Reopen: b.reopen,
	}, p)
	b.t.Cleanup(f.Stop)
	f.Start()
	return p
}

// mayNot returns the denial of a verb.
func mayNot(verb string) error {
	return apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("it may not "+verb))
}

// TestAnObjectThatMayOnlyBeRead is read soon at first, then more and more seldom, and watched as
// soon as that is allowed.
func TestAnObjectThatMayOnlyBeRead(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(mayNot("list"), mayNot("watch"))
		b.AnswerGets(nil)
		p := b.poll()
		b.wantNow(holding(o), 1)
		pass(10 * time.Minute)
		times := b.Times("get", web)
		for i, at := range times[1:] {
			since := times[i].Sub(times[0])
			least := min(since, longestPoll)
			most := least*3/2 + longestSilence // With the delay after a request that failed.
			if got := at.Sub(times[i]); got < least || got > most {
				t.Errorf("read %d comes %s after the one before, %s after the first; want %s to %s", i+1, got, since, least, most)
			}
		}
		if got := b.Count("watch"); got != 0 || p.reported() != len(times) {
			t.Errorf("%d watches and %d reports of %d reads, want no watch, and a report of each", got, p.reported(), len(times))
		}

		next := b.putMap(configMap(web, "2"))
		b.Answer(nil, nil)
		pass(longestPoll*3/2 + longestSilence)
		b.wantNow(holding(next), 1)
		b.wantWatches(1)
	})
}

// TestAnObjectThatMayNotBeRead: the error is what the handler makes of the denial of the list.
func TestAnObjectThatMayNotBeRead(t *testing.T) {
	bubble(t, func(b *bench) {
		b.Answer(mayNot("list"), mayNot("watch"))
		b.AnswerGets(mayNot("get"))
		p := b.poll()
		pass(time.Second)
		want := known{Err: "nothing is allowed\n" + mayNot("list").Error()}
		b.want(web, want)
		if p.reported() != 0 {
			t.Errorf("%d reads are reported, want none", p.reported())
		}
	})
}
