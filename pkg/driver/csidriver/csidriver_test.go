package csidriver_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is told of an object that is wrong.
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
		object func(*bench)
		want   string
		text   string
		log    string
	}{
		"podInfoOnMount is true":  {func(b *bench) { b.put(new(true)) }, right, "<nil>", logRight},
		"podInfoOnMount is false": {func(b *bench) { b.put(new(false)) }, wrong, unvouched, logWrong},
		"podInfoOnMount is unset": {func(b *bench) { b.put(nil) }, wrong, unvouched, logWrong},
		"there is no object":      {func(*bench) {}, missing, absent, logWrong},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(b *bench) {
				test.object(b)
				b.start()
				b.want(test.want)
				b.wantError(test.text)
				b.wantLog(test.log)
				if got := b.Check(b.t.Context()); kindOf(b.t, got) != test.want || errors.Unwrap(got) != nil {
					b.t.Errorf("Check = %v, want %q without a cause", got, test.want)
				}
			})
		})
	}
}

// TestAnObjectsLife follows one object from before it is made to after it has been made anew. Each change is logged
// once, and costs no request.
func TestAnObjectsLife(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		steps := []struct {
			change func()
			want   string
			log    []string
		}{
			{func() {}, missing, []string{logWrong}},
			{func() { b.put(new(false)) }, wrong, []string{logWrong}},
			{func() { b.put(nil) }, wrong, nil},
			{func() { b.put(new(true)) }, right, []string{logRight}},
			{func() { b.put(new(true)) }, right, nil}, // Something else has changed.
			{func() { b.put(new(false)) }, wrong, []string{logWrong}},
			{func() { b.put(new(true)) }, right, []string{logRight}},
			{b.remove, missing, []string{logWrong}},
			{func() { b.put(new(true)) }, right, []string{logRight}},
			{b.remove, missing, []string{logWrong}},
			{func() { b.put(nil) }, wrong, []string{logWrong}},
		}
		for i, step := range steps {
			step.change()
			b.want(step.want)
			b.wantLog(step.log...)
			if t := b.t; t.Failed() {
				t.Fatalf("after step %d", i)
			}
		}
		if got := len(b.asked()); got != 2 {
			b.t.Errorf("requests = %v, want one list and one watch", b.asked())
		}
	})
}

// TestNoRequestInSteadyState lets a quarter of an hour pass.
func TestNoRequestInSteadyState(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		pass(15 * time.Minute)
		got := b.asked()
		if len(got) != 2 || got[0].verb != "list" || got[1].verb != "watch" {
			b.t.Fatalf("requests = %v, want a list and a watch", got)
		}
		if got[0].version != "" || got[1].version != "101" {
			b.t.Errorf("versions asked for = %q and %q, want the latest and what the list had", got[0].version, got[1].version)
		}
		if seconds, err := strconv.Atoi(got[1].timeout); err != nil || seconds < 1800 {
			b.t.Errorf("the watch asks to be closed after %q seconds, want at least 1800", got[1].timeout)
		}
	})
}

func TestCheckWaitsForTheFirstAnswer(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		answer := b.hold()
		defer answer()
		results := make(chan error, 3)
		began := time.Now()
		for range cap(results) { // The first of them before Run.
			go func() { results <- b.Check(b.t.Context()) }()
		}
		synctest.Wait()
		b.start()
		pass(time.Hour)
		if len(results) > 0 {
			b.t.Fatalf("Check = %v before the API server has answered", <-results)
		}
		answer()
		for range cap(results) {
			if err := <-results; err != nil {
				b.t.Errorf("Check = %v, want nil", err)
			}
		}
		if got := time.Since(began); got != time.Hour {
			b.t.Errorf("Check took %v, want an hour", got)
		}
	})
}

// TestCheckEndsWithItsContext: nothing is known, which is not believed.
func TestCheckEndsWithItsContext(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		defer b.hold()()
		b.start()
		ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		err := b.Check(ctx)
		if got := time.Since(began); got != 10*time.Second {
			b.t.Errorf("Check took %v, want 10s", got)
		}
		const want = "whether the kubelet vouches for pods is not known: " +
			"the CSIDriver object csi.example.org has not been read yet"
		if got := fmt.Sprint(err); got != want {
			b.t.Errorf("Check = %s, want %s", got, want)
		}
		if got := kindOf(b.t, err); got != unread {
			b.t.Errorf("kind = %q, want %q", got, unread)
		}
		b.wantLog() // That it takes long is nothing that has happened.
	})
}

// TestTheEndLetsGo of everybody who waits, and of the API server.
func TestTheEndLetsGo(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.hold()()
		b.start()
		results := make(chan error, 3)
		for range cap(results) {
			go func() { results <- b.Check(b.t.Context()) }()
		}
		pass(30 * time.Second) // Less than a list may take.
		b.stop()
		const want = "whether the kubelet vouches for pods is not known: the driver is being stopped"
		for range cap(results) {
			if err := <-results; kindOf(b.t, err) != unread || err.Error() != want {
				b.t.Errorf("Check = %v, want %s", err, want)
			}
		}
		if err := <-b.ended; err != nil {
			b.t.Errorf("Run = %v, want nil", err)
		}
		b.wantError(want)
		b.wantLog() // The request that was cut short is no trouble.
		pass(time.Hour)
		if got := len(b.asked()); got != 1 {
			b.t.Errorf("requests = %d, want the one before the end", got)
		}
	})
}

// TestWhatIsKnownOutlivesTheEnd serves the requests that are still under way then.
func TestWhatIsKnownOutlivesTheEnd(t *testing.T) {
	t.Parallel()
	for podInfoOnMount, text := range map[bool]string{true: "<nil>", false: unvouched} {
		t.Run(fmt.Sprint(podInfoOnMount), func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.put(&podInfoOnMount)
				b.start()
				b.wantError(text)
				b.stop()
				if err := <-b.ended; err != nil {
					b.t.Errorf("Run = %v, want nil", err)
				}
				synctest.Wait()
				if got := b.open(); got != 0 {
					b.t.Errorf("open watches = %d, want 0", got)
				}
				b.put(new(!podInfoOnMount))
				b.wantError(text)
			})
		})
	}
}

// TestEndedBeforeItBegan runs under a context that is over.
func TestEndedBeforeItBegan(t *testing.T) {
	bubble(t, func(b *bench) {
		b.stop()
		b.start()
		if err := b.Check(b.t.Context()); kindOf(b.t, err) != unread {
			b.t.Errorf("Check = %v, want it to be %s", err, unread)
		}
		if err := <-b.ended; err != nil {
			b.t.Errorf("Run = %v, want nil", err)
		}
		b.wantLog()
	})
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				for range 50 {
					if err := b.Check(b.t.Context()); kindOf(b.t, err) == unread {
						b.t.Errorf("Check = %v, want it to know", err)
					}
					pass(100 * time.Microsecond)
				}
			})
		}
		for i := range 100 {
			if i%10 == 9 {
				b.remove()
			} else {
				b.put(new(i%2 == 0))
			}
			pass(50 * time.Microsecond)
		}
		running.Wait()
		b.put(new(true))
		b.want(right)
	})
}
