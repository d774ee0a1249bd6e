// Package reload has a program read its files again when they have changed, and finds out whether
// the program works with them. It does not know Kubernetes, and keeps nothing of what is in files.
package reload

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Times between attempts.
const (
	// upPause is between looks whether the program is up.
	upPause = 500 * time.Millisecond
	// firstRetry is before the first retry of an action; each later one waits twice as long.
	firstRetry = 500 * time.Millisecond
	// longestRetry is the most of that.
	longestRetry = time.Minute
)

// ErrNotUp means that the program that is to read its files does not run yet.
var ErrNotUp = errors.New("the program is not up")

// Config is what a reloader needs. All fields are required but the last ones.
type Config struct {
	// Read returns what the files have, and watches them from then on.
	Read func(context.Context) (Content, error)
	// Changes has an element when the files may have changed.
	Changes <-chan struct{}
	// Act has the program read its files. The error is in words for people and has no content.
	Act func(context.Context) error
	// Verify finds out whether the program works with them.
	Verify func(context.Context) error
	// Report is called when something has been done, or failed.
	Report func(Status)
	// Rest is called before the reloader waits.
	Rest func()
	// Timeout is how long one attempt may take.
	Timeout time.Duration
	// Retries is how many attempts follow an action that failed before the reload counts as failed.
	// Then it is tried again for as long as the content is the newest.
	Retries int
	// InitialWait is for how long, from the start, a program that is not up is no failure.
	InitialWait time.Duration
	// AtStart is whether the content at the start is a change.
	AtStart bool
}

// Reloader is made by New.
type Reloader struct {
	cfg Config

	mu     sync.Mutex // Guards status.
	status Status
}

// Status is how far a reloader has come. Nothing of it comes from the content of files.
type Status struct {
	// Content counts the contents that were seen, and Files is how many files the newest has.
	Content int `json:"content"`
	Files   int `json:"files"`
	// ReadAt is when the files were last read: the reloader does not know what was written later.
	ReadAt time.Time `json:"readAt,omitzero"`
	// Loaded is the content that the program was seen to work with last; zero for none yet. The
	// content at the start counts as loaded, unless it is a change.
	Loaded int `json:"loaded"`
	// Failure is why the program does not work with a content, until it works with a later one;
	// empty if it works, or if that is not known yet.
	Failure string `json:"failure,omitempty"`
	// Failed is the content that Failure is about.
	Failed int `json:"failed,omitempty"`
	// FailedSince is when the first content failed of those since the last success.
	FailedSince time.Time `json:"failedSince,omitzero"`
	// NextTry is when the content of Failure is tried again. It is in the past while that is tried,
	// and zero while a newer content is tried.
	NextTry time.Time `json:"nextTry,omitzero"`
	// Successes and Failures count reloads.
	Successes int `json:"successes"`
	Failures  int `json:"failures"`
	// LastSuccess is when a reload last succeeded, and Took is for how long it went on, attempts
	// that failed included.
	LastSuccess time.Time     `json:"lastSuccess,omitzero"`
	Took        time.Duration `json:"tookNanoseconds,omitempty"`
}

// IsPending reports whether the newest content is not loaded, and has not failed.
func (s Status) IsPending() bool { return s.Content != s.Loaded && s.Content != s.Failed }

// succeeded ends what has failed.
func (s *Status) succeeded() {
	s.Failure, s.Failed, s.FailedSince, s.NextTry = "", 0, time.Time{}, time.Time{}
}

// New returns a reloader that does nothing until it runs.
func New(cfg Config) *Reloader { return &Reloader{cfg: cfg} }

// Status returns how far the reloader has come.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// update changes the status, and reports it.
func (r *Reloader) update(change func(*Status)) {
	r.mu.Lock()
	change(&r.status)
	now := r.status
	r.mu.Unlock()
	r.cfg.Report(now)
}

// noteRead notes that the files have what they had. That is nothing to report.
func (r *Reloader) noteRead(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ReadAt = at
}

// Run works until the context ends.
func (r *Reloader) Run(ctx context.Context) {
	w := work{Reloader: r, up: time.Now().Add(r.cfg.InitialWait)}
	for {
		wait := w.step(ctx)
		r.cfg.Rest()
		if !r.rest(ctx, wait) {
			return
		}
	}
}

// rest waits for a change, or until it is time to try again; zero for a change only. It returns
// false when the context has ended.
func (r *Reloader) rest(ctx context.Context, wait time.Duration) bool {
	var again <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
	case <-r.cfg.Changes:
	case <-again:
	}
	return ctx.Err() == nil
}

// fail notes that the newest content does not work, or that it cannot be read, and when it is tried
// again.
func (r *Reloader) fail(err error, pause time.Duration) {
	r.update(func(s *Status) {
		if s.Failure == "" {
			s.FailedSince = time.Now()
		}
		s.Failure, s.Failed, s.NextTry = err.Error(), s.Content, time.Now().Add(pause)
		s.Failures++
	})
}

// work is what a reloader knows from step to step.
type work struct {
	*Reloader

	up      time.Time // Until then, a program that is not up is no failure.
	last    string    // The digest of the newest content; empty before the first one.
	since   time.Time // When the first attempt for it began; zero before that.
	retries int       // How many attempts for it have failed, without those in which the program was not up.
}

// step reads the files once and, if the program is not seen to work with them, has it read them. It
// returns when to try again; zero for when something changes.
func (w *work) step(ctx context.Context) time.Duration {
	began := time.Now()
	content, err := w.cfg.Read(ctx)
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		w.retries++
		w.fail(err, w.pause())
		return w.pause()
	case content.Digest != w.last:
		w.begin(content, began)
	default:
		w.noteRead(began)
	}
	if now := w.Status(); now.Content == now.Loaded {
		if w.retries = 0; now.Failure != "" { // The files could not be read for a while.
			w.update((*Status).succeeded)
		}
		return 0
	}
	return w.try(ctx)
}

// begin notes another content. An earlier failure stays in the status until a reload succeeds: it
// is not known yet whether the program works with the new content.
func (w *work) begin(c Content, readAt time.Time) {
	isLoaded := w.last == "" && !w.cfg.AtStart
	w.last, w.since, w.retries = c.Digest, time.Time{}, 0
	w.update(func(s *Status) {
		s.Content++
		s.Files, s.ReadAt, s.NextTry = c.Files, readAt, time.Time{}
		if isLoaded {
			s.Loaded = s.Content
		}
	})
}

// try has the program read its files once.
func (w *work) try(ctx context.Context) time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	err := w.attempt(ctx)
	switch {
	case err == nil:
		w.update(func(s *Status) {
			s.succeeded()
			s.Loaded = s.Content
			s.Successes++
			s.LastSuccess, s.Took = time.Now(), time.Since(w.since)
		})
		w.retries = 0
		return 0
	case ctx.Err() != nil:
		return 0
	case errors.Is(err, ErrNotUp) && w.Status().Successes == 0 && time.Now().Before(w.up):
		return upPause
	}
	if w.retries++; w.retries > w.cfg.Retries || errors.Is(err, errUnverified) {
		w.fail(err, w.pause())
	}
	return w.pause()
}

// pause returns how long to wait after so many attempts that failed.
func (w *work) pause() time.Duration {
	const most = 10 // Doublings, after which the pause is the longest anyway.
	return min(firstRetry<<min(w.retries-1, most), longestRetry)
}

func (r *Reloader) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if err := r.cfg.Act(ctx); err != nil {
		return err
	}
	if err := r.cfg.Verify(ctx); err != nil {
		return unverified{err}
	}
	return nil
}

// errUnverified means that the program does not work with the files although it has accepted them.
// It had all the time of the attempt, so this is a failure at once.
var errUnverified = errors.New("unverified")

// unverified is an error of a verification, with its words alone.
type unverified struct{ error }

func (u unverified) Unwrap() []error { return []error{u.error, errUnverified} }
