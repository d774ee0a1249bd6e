package flowcontrol_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// desk is a server that answers on command. It is used in a synctest bubble.
type desk struct {
	*testing.T
	ctx     context.Context
	gate    *flowcontrol.Gate
	through http.RoundTripper
	sent    chan *sent
	asked   int
}

// sent is a request that has come to the server.
type sent struct {
	name   string
	answer chan int // The status, or zero for a broken connection.
}

// asker is the caller of a request.
type asker struct {
	done   chan struct{}
	err    error
	closed bool // The body of the request.
}

// Close is [io.Closer].
func (a *asker) Close() error {
	a.closed = true
	return nil
}

// RoundTrip is [http.RoundTripper].
func (d *desk) RoundTrip(r *http.Request) (*http.Response, error) {
	s := &sent{name: r.URL.Path, answer: make(chan int)}
	d.sent <- s
	select {
	case status := <-s.answer:
		if status == 0 {
			return nil, errors.New("connection refused")
		}
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {watchType}}, Body: http.NoBody}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// ask makes so many requests, one after the other. Their names are numbers. Nobody reads or
// closes the answers.
func (d *desk) ask(ctx context.Context, n int) []*asker {
	d.Helper()
	askers := make([]*asker, 0, n)
	for range n {
		a := &asker{done: make(chan struct{})}
		body := struct {
			io.Reader
			io.Closer
		}{strings.NewReader("x"), a}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/"+strconv.Itoa(d.asked), body)
		if err != nil {
			d.Fatal(err)
		}
		d.asked++
		go func() {
			defer close(a.done)
			_, a.err = d.through.RoundTrip(r) //nolint:bodyclose // Bodies stay open.
		}()
		synctest.Wait()
		askers = append(askers, a)
	}
	return askers
}

// want returns the requests that have arrived since the last time: n of them, from the next one
// on. The order of those that were sent at once is unknown.
func (d *desk) want(n, next int) (came []*sent) {
	d.Helper()
	want := make([]int, n)
	for i := range n {
		want[i] = next + i
	}
	return d.wantThese(want...)
}

// wantThese is want for requests that do not follow each other.
func (d *desk) wantThese(requests ...int) (came []*sent) {
	d.Helper()
	synctest.Wait()
	var got, want []string
	for range len(d.sent) {
		s := <-d.sent
		came, got = append(came, s), append(got, s.name)
	}
	for _, n := range requests {
		want = append(want, "/"+strconv.Itoa(n))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		d.Fatalf("requests that came (-want +got):\n%s", diff)
	}
	return came
}

// answer answers all of them.
func answer(status int, all ...*sent) {
	for _, s := range all {
		s.answer <- status
	}
	synctest.Wait()
}

// widen asks and answers until many may come at a time.
func (d *desk) widen() {
	d.Helper()
	d.ask(d.ctx, 32)
	for next := 0; next < 32; {
		synctest.Wait()
		came := d.want(len(d.sent), next)
		next += len(came)
		answer(http.StatusOK, came...)
	}
}

// TestRequestsBeginFew, of which each may make a connection, and become more with each answer, up
// to a number. They are sent in the order in which they were made. A body that is open takes no
// slot.
func TestRequestsBeginFew(t *testing.T) {
	bubble(t, func(d *desk) {
		d.ask(d.ctx, 250)
		for _, step := range []struct{ come, next int }{{2, 0}, {6, 2}, {18, 8}, {54, 26}, {64, 80}, {64, 144}, {42, 208}} {
			answer(http.StatusOK, d.want(step.come, step.next)...)
		}
	})
}

// TestTroubleMakesThemFew: a server that refuses all requests gets two at a time. With each
// answer they become more again.
func TestTroubleMakesThemFew(t *testing.T) {
	t.Parallel()
	few, many := []int{2, 6, 18, 54, 64}, []int{64, 64, 64}
	tests := map[string]struct {
		status int
		then   []int // How many come at a time after that was the answer.
	}{
		"no connection":     {0, few},
		"come again later":  {http.StatusTooManyRequests, few},
		"it is broken":      {http.StatusInternalServerError, few},
		"it is not there":   {http.StatusServiceUnavailable, few},
		"forbidden is fine": {http.StatusForbidden, many},
		"expired is fine":   {http.StatusGone, many},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(d *desk) {
			d.widen()
			d.ask(d.ctx, 300)
			answer(tt.status, d.want(64, 32)...)
			d.wantSteps(96, tt.then...)
		})
	}
}

// wantSteps answers, and wants so many to come at a time, from the next one on.
func (d *desk) wantSteps(next int, steps ...int) {
	d.Helper()
	for _, n := range steps {
		answer(http.StatusOK, d.want(n, next)...)
		next += n
	}
}

// TestSomeTroubleHalvesThem: a server that refuses one request of many gets fewer, but not two at
// a time.
func TestSomeTroubleHalvesThem(t *testing.T) {
	bubble(t, func(d *desk) {
		d.widen()
		d.ask(d.ctx, 200)
		came := d.want(64, 32)
		answer(http.StatusServiceUnavailable, came[0])
		answer(http.StatusOK, came[1:11]...)
		d.want(0, 96) // 53 are under way, and 52 may be.
		answer(http.StatusOK, came[11])
		d.want(2, 96)
	})
}

// TestALateAnswerIsNoTrouble: a server that takes longer than a second for each answer soon gets
// many requests at a time. The 400 requests of a node that starts are answered within seconds.
// This is a part of fault 30.
func TestALateAnswerIsNoTrouble(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{1200 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second} {
		bubbleCase(t, latency.String(), func(d *desk) {
			const many = 400
			go func() {
				for range many {
					s := <-d.sent
					time.AfterFunc(latency, func() { s.answer <- http.StatusOK })
				}
			}()
			began := time.Now()
			for _, a := range d.ask(d.ctx, many) {
				<-a.done
			}
			if took, most := time.Since(began), 8*time.Second+5*latency; took > most {
				d.Errorf("%d requests took %s where each takes %s, want at most %s", many, took, latency, most)
			}
		})
	}
}

// TestNobodyWaitsForASilentServer for longer than a second for each two before: a request without
// an answer makes way, and while nothing is answered there are few.
func TestNobodyWaitsForASilentServer(t *testing.T) {
	bubble(t, func(d *desk) {
		d.widen()
		askers := d.ask(d.ctx, 160)
		hanging := d.want(64, 32)
		<-time.After(999 * time.Millisecond)
		d.want(0, 0)
		<-time.After(time.Millisecond)
		d.want(64, 96)
		<-time.After(time.Second)
		for next := 160; next < 172; next += 2 {
			d.want(2, next)
			<-time.After(time.Second)
		}
		next := d.want(2, 172)
		answer(http.StatusOK, next[0])
		d.want(3, 174)                    // There is an answer: two more than before.
		answer(http.StatusOK, hanging[0]) // It has no slot to return, but is an answer.
		d.want(2, 177)
		if <-askers[0].done; askers[0].err != nil {
			d.Errorf("error = %v of one that was answered late, want none", askers[0].err)
		}
	})
}

// TestOneThatHangs delays no other.
func TestOneThatHangs(t *testing.T) {
	bubble(t, func(d *desk) {
		d.ask(d.ctx, 1)
		d.want(1, 0)
		for i := range 20 {
			d.ask(d.ctx, 1)
			answer(http.StatusOK, d.want(1, 1+i)...)
			<-time.After(500 * time.Millisecond)
		}
	})
}

// TestACancelledRequestMakesWay, whether it was sent or not.
func TestACancelledRequestMakesWay(t *testing.T) {
	bubble(t, func(d *desk) {
		ctx, cancel := context.WithCancelCause(d.ctx)
		gone := d.ask(ctx, 3)
		d.ask(d.ctx, 5)
		d.want(2, 0)
		cause := errors.New("nobody needs it")
		cancel(cause)
		d.want(2, 3) // The third is not sent. The end of the first two is not about the server.
		for i, a := range gone {
			<-a.done
			if a.err == nil || i == 2 && (!errors.Is(a.err, cause) || !a.closed) {
				d.Errorf("request %d: error %v, body closed %t; want the cause, and the body closed", i, a.err, a.closed)
			}
		}
	})
}

// TestAfterALullTheyAreFewAgain: the connection may be gone, and the server another one.
func TestAfterALullTheyAreFewAgain(t *testing.T) {
	t.Parallel()
	for lull, want := range map[time.Duration]int{2*time.Second - 1: 64, 2 * time.Second: 2} {
		bubbleCase(t, lull.String(), func(d *desk) {
			d.widen()
			<-time.After(lull)
			d.ask(d.ctx, 80)
			d.want(want, 32)
		})
	}
}
