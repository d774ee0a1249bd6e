package reload_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
)

// pod is a directory whose content tests set, and a program beside it, in a synctest bubble.
type pod struct {
	t       *testing.T
	changes chan struct{}
	r       *reload.Reloader
	start   time.Time

	mu       sync.Mutex // Guards the fields below.
	content  string
	unread   error // Why the files cannot be read.
	act      error
	verify   error
	takes    time.Duration
	acted    []string // What the files had when the program was asked to read them.
	reported []reload.Status
}

// inPod runs a test with a reloader that runs.
func inPod(t *testing.T, cfg reload.Config, test func(p *pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pod{t: t, changes: make(chan struct{}, 1), content: "1", start: time.Now()}
		cfg.Read, cfg.Changes, cfg.Act, cfg.Verify, cfg.Report = p.read, p.changes, p.doAct, p.doVerify, p.report
		cfg.Rest = func() {}
		cfg.Timeout = 10 * time.Second
		p.r = reload.New(cfg)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.r.Run(ctx) })
		synctest.Wait()
		test(p)
		stop()
		running.Wait()
	})
}

func (p *pod) read(context.Context) (reload.Content, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return reload.Content{Digest: p.content, Files: len(p.content)}, p.unread
}

func (p *pod) doAct(ctx context.Context) error {
	p.mu.Lock()
	p.acted = append(p.acted, p.content)
	err, takes := p.act, p.takes
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return errors.New("no answer in time")
	case <-time.After(takes):
		return err
	}
}

func (p *pod) doVerify(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.verify
}

func (p *pod) report(s reload.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reported = append(p.reported, s)
}

func (p *pod) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// edit changes the content.
func (p *pod) edit(content string) {
	p.set(func() { p.content = content })
	p.touch()
}

// touch reports a change that may be none.
func (p *pod) touch() {
	select {
	case p.changes <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// wantActed compares what the program was asked to read.
func (p *pod) wantActed(want ...string) {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if fmt.Sprint(p.acted) != fmt.Sprint(want) {
		p.t.Errorf("after %s it was asked to read %q, want %q", time.Since(p.start), p.acted, want)
	}
}

func (p *pod) wantFailure(want string) {
	p.t.Helper()
	synctest.Wait()
	if got := p.r.Status().Failure; got != want {
		p.t.Errorf("after %s the failure is %q, want %q", time.Since(p.start), got, want)
	}
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // In a bubble it takes no time.
	synctest.Wait()
}

// TestChanges of the content have the program read it, and nothing else does.
func TestChanges(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{}, func(p *pod) {
		p.wantActed() // The start is no change.
		p.touch()
		p.wantActed()
		p.edit("2")
		p.wantActed("2")
		p.touch()
		p.edit("2")
		p.wantActed("2")
		if s := p.r.Status(); s.Content != 2 || s.Loaded != 2 || s.Successes != 1 || s.Failures != 0 || s.Failure != "" || s.LastSuccess.IsZero() {
			t.Errorf("status = %+v", s)
		}
	})
}

func TestAtStart(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{AtStart: true}, func(p *pod) { p.wantActed("1") })
}

// TestAChangeDuringAReload is one more, however many there are.
func TestAChangeDuringAReload(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{}, func(p *pod) {
		p.set(func() { p.takes = 3 * time.Second })
		p.edit("2")
		for i := range 5 {
			p.edit(fmt.Sprint(3 + i))
		}
		p.wantActed("2")
		pass(10 * time.Second)
		p.wantActed("2", "7")
		if s := p.r.Status(); s.Loaded != s.Content || s.IsPending() {
			t.Errorf("status = %+v, want that the last content is loaded", s)
		}
	})
}

// TestFailures: retries come first, then it counts as failed, and it is tried again with growing pauses until it succeeds.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*pod, error){
		"the action":       func(p *pod, err error) { p.act = err },
		"the verification": func(p *pod, err error) { p.verify = err }, // It has taken its time.
	} {
		isAtOnce := name == "the verification"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inPod(t, reload.Config{Retries: 1}, func(p *pod) {
				p.set(func() { fail(p, errors.New("refused")) })
				p.edit("2")
				if isPending := p.r.Status().IsPending(); isPending == isAtOnce {
					t.Errorf("it is pending between attempts: %t", isPending)
				}
				pass(600 * time.Millisecond)
				p.wantFailure("refused")
				since := p.r.Status().FailedSince
				pass(time.Hour)
				p.wantFailure("refused")
				if s := p.r.Status(); s.Failures < 50 || s.Failures > 100 || !s.FailedSince.Equal(since) || s.Loaded != 1 {
					t.Errorf("after an hour: %+v, want a try each minute, and when it first failed", s)
				}
				p.set(func() { fail(p, nil) })
				pass(time.Minute)
				p.wantFailure("")
				if s := p.r.Status(); s.Loaded != 2 || s.Successes != 1 {
					t.Errorf("status = %+v, want it loaded", s)
				}
			})
		})
	}
}

// TestANewerContent ends the tries of an older one.
func TestANewerContent(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{}, func(p *pod) {
		p.set(func() { p.act = errors.New("refused") })
		p.edit("2")
		p.wantFailure("refused")
		p.set(func() { p.act = nil })
		p.edit("3")
		p.wantFailure("")
		p.wantActed("2", "3")
		p.edit("2")
		p.edit("3")
		p.wantActed("2", "3", "2", "3")
	})
}

// TestAFailureLastsUntilASuccess: while nobody knows whether the program works with a newer content, the last failure stands.
func TestAFailureLastsUntilASuccess(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{}, func(p *pod) {
		p.set(func() { p.act = errors.New("refused") })
		p.edit("2")
		p.wantFailure("refused")
		since := p.r.Status().FailedSince
		p.set(func() { p.act, p.takes = errors.New("refused too"), 5*time.Second })
		p.edit("3")
		if s := p.r.Status(); s.Failure != "refused" || s.Failed != 2 || !s.IsPending() {
			t.Errorf("status = %+v, want that of content 2 while content 3 is being loaded", s)
		}
		pass(5 * time.Second)
		p.wantFailure("refused too")
		if s := p.r.Status(); s.Failed != 3 || !s.FailedSince.Equal(since) || s.IsPending() {
			t.Errorf("status = %+v, want content 3 failed, since %s", s, since)
		}
		p.set(func() { p.act = nil })
		pass(time.Minute)
		p.wantFailure("")
		if s := p.r.Status(); s.Failed != 0 || !s.FailedSince.IsZero() || s.Loaded != 3 {
			t.Errorf("status = %+v, want nothing failed", s)
		}
	})
}

// TestAProgramThatIsNotUp is no failure for a while, and only before the first success.
func TestAProgramThatIsNotUp(t *testing.T) {
	t.Parallel()
	notUp := fmt.Errorf("%w: connection refused", reload.ErrNotUp)
	inPod(t, reload.Config{InitialWait: time.Minute}, func(p *pod) {
		p.set(func() { p.act = notUp })
		p.edit("2")
		pass(50 * time.Second)
		p.wantFailure("")
		p.set(func() { p.act = nil })
		pass(time.Second)
		if s := p.r.Status(); s.Loaded != 2 || s.Failures != 0 {
			t.Errorf("status = %+v, want it loaded when the program is up", s)
		}
		p.set(func() { p.act = notUp })
		p.edit("3")
		p.wantFailure(notUp.Error())
	})
	inPod(t, reload.Config{InitialWait: time.Minute}, func(p *pod) {
		p.set(func() { p.act = notUp })
		p.edit("2")
		pass(2 * time.Minute)
		p.wantFailure(notUp.Error())
	})
}

// TestFilesThatCannotBeRead are a failure for as long as that lasts, and no change.
func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{Retries: 3}, func(p *pod) {
		p.set(func() { p.unread = errors.New("permission denied") })
		p.touch()
		p.wantFailure("permission denied")
		p.set(func() { p.unread = nil })
		pass(time.Second)
		p.wantFailure("")
		p.wantActed()
	})
}

// TestAnActionThatHangs ends in time.
func TestAnActionThatHangs(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{}, func(p *pod) {
		p.set(func() { p.takes = time.Hour })
		p.edit("2")
		pass(11 * time.Second)
		p.wantFailure("no answer in time")
	})
}

// TestReadAt is when the files were read last, also where nothing has changed: what was written later is not in use.
func TestReadAt(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{Retries: 0}, func(p *pod) {
		want := func(what string, at time.Time) {
			t.Helper()
			synctest.Wait()
			if got := p.r.Status().ReadAt; !got.Equal(at) {
				t.Errorf("%s: the files were read %s ago, want %s", what, time.Since(got), time.Since(at))
			}
		}
		want("the start", p.start)
		pass(time.Second)
		p.touch()
		want("nothing has changed", time.Now())
		p.set(func() { p.unread = errors.New("no right") })
		read := time.Now()
		pass(time.Second)
		p.touch()
		want("they cannot be read", read)
	})
}

// TestNextTry is when a content that failed is tried again. A newer content is tried at once.
func TestNextTry(t *testing.T) {
	t.Parallel()
	inPod(t, reload.Config{Retries: 1}, func(p *pod) {
		wantIn := func(what string, want time.Duration) {
			t.Helper()
			synctest.Wait()
			got := p.r.Status().NextTry
			if want == 0 && !got.IsZero() || want > 0 && !got.Equal(time.Now().Add(want)) {
				t.Errorf("%s: the next try is in %s, want %s", what, time.Until(got), want)
			}
		}
		wantIn("nothing failed", 0)
		p.set(func() { p.act = errors.New("refused") })
		p.edit("2")
		wantIn("a retry is no failure yet", 0)
		pass(500 * time.Millisecond)
		wantIn("it failed", time.Second)
		pass(time.Second)
		wantIn("it failed again", 2*time.Second)
		p.set(func() { p.takes = time.Second })
		p.edit("3")
		wantIn("a newer content is tried", 0)
		p.set(func() { p.act, p.takes = nil, 0 })
		pass(2 * time.Second)
		p.wantFailure("")
		wantIn("it works", 0)
		p.set(func() { p.unread = errors.New("no right") })
		p.touch()
		wantIn("it cannot be read", 500*time.Millisecond)
		p.set(func() { p.unread = nil })
		pass(500 * time.Millisecond)
		wantIn("it can be read again", 0)
	})
}
