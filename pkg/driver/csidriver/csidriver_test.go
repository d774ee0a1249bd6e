package csidriver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The messages about an object that is wrong.
const (
	unvouched = "the kubelet does not vouch for pods: the CSIDriver object csi.example.org does not have podInfoOnMount: true; " +
		"run: kubectl patch csidriver csi.example.org --type=merge -p '{\"spec\":{\"podInfoOnMount\":true}}' " +
		"(before Kubernetes 1.29: kubectl replace --force -f deploy/base/csidriver.yaml)"
	absent = "the kubelet does not vouch for pods: the CSIDriver object csi.example.org does not exist; " +
		"run: kubectl apply -f deploy/base/csidriver.yaml (its metadata.name must be csi.example.org)"
)

func TestWhatIsThereAtTheStart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object func(*fixture)
		want   string
		text   string
		log    string
	}{
		"podInfoOnMount is true":  {func(f *fixture) { f.put(new(true)) }, right, "<nil>", logRight},
		"podInfoOnMount is false": {func(f *fixture) { f.put(new(false)) }, wrong, unvouched, logWrong},
		"podInfoOnMount is unset": {func(f *fixture) { f.put(nil) }, wrong, unvouched, logWrong},
		"there is no object":      {func(*fixture) {}, missing, absent, logWrong},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				test.object(f)
				f.start()
				f.want(test.want)
				f.wantError(test.text)
				f.wantLog(test.log)
				if got := f.Check(f.t.Context()); kindOf(f.t, got) != test.want || errors.Unwrap(got) != nil {
					f.t.Errorf("Check = %v, want %q without a cause", got, test.want)
				}
			})
		})
	}
}

// TestAnObjectsLife follows one object from before it is created until after it was created again.
// Each change is logged once, and costs no request, and neither does a quarter of an hour.
func TestAnObjectsLife(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.start()
		steps := []struct {
			change func()
			want   string
			log    []string
		}{
			{func() {}, missing, []string{logWrong}},
			{func() { f.put(new(false)) }, wrong, []string{logWrong}},
			{func() { f.put(nil) }, wrong, nil},
			{func() { f.put(new(true)) }, right, []string{logRight}},
			{func() { f.put(new(true)) }, right, nil}, // Something else has changed.
			{func() { f.put(new(false)) }, wrong, []string{logWrong}},
			{func() { f.put(new(true)) }, right, []string{logRight}},
			{f.remove, missing, []string{logWrong}},
			{func() { f.put(new(true)) }, right, []string{logRight}},
			{f.remove, missing, []string{logWrong}},
			{func() { f.put(nil) }, wrong, []string{logWrong}},
		}
		for i, step := range steps {
			step.change()
			f.want(step.want)
			f.wantLog(step.log...)
			if t := f.t; t.Failed() {
				t.Fatalf("after step %d", i)
			}
		}
		for range 15 {
			pass(time.Minute)
			f.bookmark()
		}
		f.wantRequests("list", "watch")
	})
}

func TestCheckWaitsForTheFirstAnswer(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(new(true))
		answer := f.hold()
		defer answer()
		results := make(chan error, 3)
		began := time.Now()
		for range cap(results) { // The first of them before Run.
			go func() { results <- f.Check(f.t.Context()) }()
		}
		synctest.Wait()
		f.start()
		pass(30 * time.Second) // A list may take a minute.
		if len(results) > 0 {
			f.t.Fatalf("Check = %v before the API server has answered", <-results)
		}
		answer()
		for range cap(results) {
			if err := <-results; err != nil {
				f.t.Errorf("Check = %v, want nil", err)
			}
		}
		if got := time.Since(began); got != 30*time.Second {
			f.t.Errorf("Check took %v, want 30s", got)
		}
	})
}

// TestCheckEndsWithItsContext with an error, because nothing is known.
func TestCheckEndsWithItsContext(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(new(true))
		defer f.hold()()
		f.start()
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		err := f.Check(ctx)
		if got := time.Since(began); got != 10*time.Second {
			f.t.Errorf("Check took %v, want 10s", got)
		}
		const want = "whether the kubelet vouches for pods is not known: " +
			"the CSIDriver object csi.example.org has not been read yet"
		if got := fmt.Sprint(err); got != want {
			f.t.Errorf("Check = %s, want %s", got, want)
		}
		if got := kindOf(f.t, err); got != unread {
			f.t.Errorf("kind = %q, want %q", got, unread)
		}
		f.wantLog() // That it takes long is nothing that has happened.
	})
}

// TestTheEndLetsGo of all callers that wait, and of the API server.
func TestTheEndLetsGo(t *testing.T) {
	bubble(t, func(f *fixture) {
		defer f.hold()()
		f.start()
		results := make(chan error, 3)
		for range cap(results) {
			go func() { results <- f.Check(f.t.Context()) }()
		}
		pass(30 * time.Second) // Less than a list may take.
		f.stop()
		const want = "whether the kubelet vouches for pods is not known: the driver is being stopped"
		for range cap(results) {
			if err := <-results; kindOf(f.t, err) != unread || err.Error() != want {
				f.t.Errorf("Check = %v, want %s", err, want)
			}
		}
		if err := <-f.ended; err != nil {
			f.t.Errorf("Run = %v, want nil", err)
		}
		f.wantError(want)
		f.wantLog() // The cancelled request is not trouble.
		pass(time.Hour)
		f.wantRequests("list")
	})
}

// TestWhatIsKnownOutlivesTheEnd serves the requests that are still under way then.
func TestWhatIsKnownOutlivesTheEnd(t *testing.T) {
	t.Parallel()
	for podInfoOnMount, text := range map[bool]string{true: "<nil>", false: unvouched} {
		t.Run(fmt.Sprint(podInfoOnMount), func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.put(&podInfoOnMount)
				f.start()
				f.wantError(text)
				f.stop()
				if err := <-f.ended; err != nil {
					f.t.Errorf("Run = %v, want nil", err)
				}
				synctest.Wait()
				f.put(new(!podInfoOnMount))
				f.wantError(text)
			})
		})
	}
}

// TestEndedBeforeItBegan runs under a context that is over.
func TestEndedBeforeItBegan(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.stop()
		f.start()
		if err := f.Check(f.t.Context()); kindOf(f.t, err) != unread {
			f.t.Errorf("Check = %v, want it to be %s", err, unread)
		}
		if err := <-f.ended; err != nil {
			f.t.Errorf("Run = %v, want nil", err)
		}
		f.wantLog()
	})
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.start()
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				for range 50 {
					if err := f.Check(f.t.Context()); kindOf(f.t, err) == unread {
						f.t.Errorf("Check = %v, want it to know", err)
					}
					pass(100 * time.Microsecond)
				}
			})
		}
		for i := range 100 {
			f.put(new(i%2 == 0))
			pass(50 * time.Microsecond)
		}
		running.Wait()
	})
}
