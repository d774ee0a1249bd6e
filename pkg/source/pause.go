package source

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// How long an object is not read that cannot be watched: as the kubelet, which syncs a pod about once a minute, or better.
const (
	longestPoll = 20 * time.Second
	pollJitter  = 0.5
)

// pause is a watch that brings nothing but, after a while, the word that it is too old. A reflector lists anew then.
type pause struct {
	timer  *time.Timer
	events chan watch.Event
}

func newPause(d time.Duration) *pause {
	p := &pause{events: make(chan watch.Event, 1)}
	p.timer = time.AfterFunc(d, func() {
		p.events <- watch.Event{Type: watch.Error, Object: &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
			Message: "it is time to read again what cannot be watched",
		}}
	})
	return p
}

// shorten has the pause end in that time, unless it is over.
func (p *pause) shorten(d time.Duration) {
	if p.timer.Stop() {
		p.timer.Reset(d)
	}
}

// Stop is [watch.Interface]. Who calls it does not wait for events any more, so it leaves the channel open.
func (p *pause) Stop() { p.timer.Stop() }

// ResultChan is [watch.Interface].
func (p *pause) ResultChan() <-chan watch.Event { return p.events }
