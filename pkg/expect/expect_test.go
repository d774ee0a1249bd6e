package expect_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// ended is a test that records how it ends.
type ended struct {
	testing.TB

	text string
}

func (*ended) Helper() {}

func (e *ended) Fatal(args ...any) {
	e.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (e *ended) Fatalf(format string, args ...any) { e.Fatal(fmt.Sprintf(format, args...)) }

// textOf returns the text with which a test ends; empty when it goes on.
func textOf(t *testing.T, test func(tb *ended)) string {
	t.Helper()
	e := new(ended)
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(e)
	}()
	<-done
	return e.text
}

// TestAnErrorEndsTheTest, and nil does not.
func TestAnErrorEndsTheTest(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"": nil, "it is broken": errors.New("it is broken")} {
		if got := textOf(t, func(tb *ended) { expect.NoError(tb, err) }); got != want {
			t.Errorf("after the error %v the test ends with %q, want %q", err, got, want)
		}
	}
}

// TestEventually looks often at first, and then 20 times a second, until the time is over.
func TestEventually(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]string{
			0: "", time.Second: "", 10 * time.Second: "", 11 * time.Second: "after 10s: not yet",
		} {
			began, looks := time.Now(), 0
			got := textOf(t, func(tb *ended) {
				expect.Eventually(tb, 10*time.Second, func() error {
					if looks++; time.Since(began) < after {
						return errors.New("not yet")
					}
					return nil
				})
			})
			if got != want {
				t.Errorf("what is so after %s ends the test with %q, want %q", after, got, want)
			}
			if least, most := int(20*min(after, 10*time.Second).Seconds()), int(20*after.Seconds())+20; looks < least || looks > most {
				t.Errorf("%d looks in %s, want %d to %d", looks, after, least, most)
			}
		}
	})
}
