package source_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// readers returns the identities that may lose access, and how the API server denies it.
func readers() map[string]reader {
	return map[string]reader{
		"by the pod": {identity.Of(runner), forbiddenList(), func(b *bench, err error) { b.Answer(err, err) }},
		"on behalf":  {behalf, denied(), func(b *bench, err error) { b.deny(err) }},
	}
}

// reader has an identity, its denial, and how its requests are answered from now on;
// nil stands for the truth.
type reader struct {
	id     identity.Identity
	denial error
	answer func(b *bench, err error)
}

// news is one reported change.
type news struct {
	at      time.Time
	revoked bool
}

// follow returns a function for the changes since.
func (b *bench) follow() func() []news {
	var told []news
	b.onChange(func(key source.Key) { told = append(told, news{time.Now(), b.Get(key).Revoked}) })
	return func() []news {
		b.settle()
		return told
	}
}

// wantNeverRevoked checks that no change has reported that access is revoked, and that it is not
// revoked now.
func (b *bench) wantNeverRevoked(told []news) {
	b.t.Helper()
	for _, n := range told {
		if n.revoked {
			b.t.Errorf("%s was reported as revoked at %s, want it never", web, n.at)
		}
	}
	if b.known(web).Revoked {
		b.t.Errorf("%s is revoked, want it not to be", web)
	}
}

// passMostOfTheDoubt waits until a denial of the object is noticed, which may be polled, and then
// for nearly so long that it would be believed.
func (b *bench) passMostOfTheDoubt() {
	b.t.Helper()
	for waited := time.Duration(0); waited < longestPause && !apierrors.IsForbidden(b.Get(b.key(web)).Err); waited += time.Second {
		pass(time.Second)
	}
	b.wantForbidden(web, "forbidden")
	pass(recheck - 2*time.Second)
	b.wantForbidden(web, "forbidden")
}

// TestADenialThatStaysIsBelieved after a recheck, reported once, and as soon as possible: the API
// server is asked often enough. The content stays. It ends when the API server grants access.
func TestADenialThatStaysIsBelieved(t *testing.T) {
	t.Parallel()
	for name, r := range readers() {
		for _, recheck := range []time.Duration{recheck, 20 * time.Second, 5 * time.Second} {
			t.Run(name+" with a recheck of "+recheck.String(), func(t *testing.T) {
				bubbleWith(t, r.id, recheck, func(b *bench) {
					o := b.putMap(configMap(web, "1"))
					defer b.acquire(web)()
					for range 2 {
						b.want(web, holding(o))
						pass(10 * time.Minute)
						told := b.follow()
						r.answer(b, r.denial)
						b.HangUp()
						pass(time.Hour)
						revoked := holding(o).with(r.denial).revoked()
						b.want(web, revoked)
						got := told()
						if len(got) != 2 || got[0].revoked || !got[1].revoked {
							t.Fatalf("changes: %v, want first the error, and then that it is revoked", got)
						}
						if after := got[1].at.Sub(got[0].at); after < recheck || after > recheck+longestSilence {
							t.Errorf("it is revoked after %s, want %s to %s", after, recheck, recheck+longestSilence)
						}
						for _, err := range []error{errors.New("connection refused"), r.denial} { // An outage grants nothing.
							r.answer(b, err)
							pass(10 * time.Minute)
							b.want(web, revoked)
						}
						r.answer(b, nil)
						pass(longestSilence)
						b.want(web, holding(o))
						if got := len(told()); got != 3 {
							t.Errorf("changes: %d, want one more, as it is over", got)
						}
					}
				})
			})
		}
	}
}

// TestAnotherAnswerRestartsTheDoubt: between denials for less than the doubt there is always
// something else.
func TestAnotherAnswerRestartsTheDoubt(t *testing.T) {
	tests := map[string]func(b *bench){
		"no answer":                   func(b *bench) { b.Answer(refused(), refused()) },
		"a server that is busy":       func(b *bench) { b.Answer(unavailable(), unavailable()) },
		"a token that is not valid":   func(b *bench) { b.Answer(apierrors.NewUnauthorized("who are you"), unavailable()) },
		"a get that is served":        func(b *bench) { b.AnswerGets(nil) },
		"a get that fails":            func(b *bench) { b.AnswerGets(unavailable()) },
		"a list that is served":       func(b *bench) { b.Answer(nil, forbidden()) },
		"that and a watch that fails": func(b *bench) { b.Answer(nil, unavailable()) },
		"everything":                  func(b *bench) { b.Answer(nil, nil) },
	}
	each(t, identity.Of(runner), tests, func(b *bench, interlude func(b *bench)) {
		told := b.follow()
		b.putMap(configMap(web, "1"))
		b.Answer(forbiddenList(), forbidden())
		defer b.acquire(web)()
		for range 10 {
			b.passMostOfTheDoubt()
			interlude(b)
			pass(longestSilence)
			b.Answer(forbiddenList(), forbidden())
			b.HangUp()
		}
		b.wantNeverRevoked(told())
		pass(longestPause + recheck + longestSilence)
		if !b.known(web).Revoked {
			b.t.Error("it is not revoked, want it to be when nothing else is heard any more")
		}
	})
}

// TestAListThatIsServedIsAnotherAnswer, although the next question, about the watch, is denied:
// of two API servers only one may know the roles.
func TestAListThatIsServedIsAnotherAnswer(t *testing.T) {
	bubbleOf(t, behalf, func(b *bench) {
		told := b.follow()
		o := b.putMap(configMap(web, "1"))
		asked := 0
		b.onAllow(func(context.Context) error {
			asked++
			if asked%2 == 0 {
				return denied()
			}
			return nil
		})
		defer b.acquire(web)()
		pass(time.Hour)
		b.wantNeverRevoked(told())
		b.want(web, holding(o).with(denied()))
		if diff := cmp.Diff(b.Count(fakeserver.Asking)/2, b.Count("list")); diff != "" {
			t.Errorf("lists (-want +got):\n%s", diff)
		}
	})
}

// TestWhatTheDriverMayNotReadForAPodIsNoDenial of the pod, which may get it, as the API server has
// just answered.
func TestWhatTheDriverMayNotReadForAPodIsNoDenial(t *testing.T) {
	bubbleOf(t, behalf, func(b *bench) {
		told := b.follow()
		o := b.putMap(configMap(web, "1"))
		b.Answer(forbiddenList(), forbidden())
		defer b.acquire(web)()
		pass(time.Hour)
		want := "the pod may get it, but the driver may not: " + forbiddenList().Error()
		b.want(web, known{Err: want})
		b.wantForbidden(web, "another error")
		b.wantChanges(web, 1)

		b.Answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(o))
		b.Answer(forbiddenList(), forbidden())
		b.HangUp()
		pass(time.Hour)
		b.want(web, holding(o).with(errors.New(want)))
		b.wantForbidden(web, "another error")
		b.wantNeverRevoked(told())
	})
}

// TestAPolledObjectIsRevokedAsWell, and is still polled when that is over.
func TestAPolledObjectIsRevokedAsWell(t *testing.T) {
	bubbleOf(t, identity.Of(runner), func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.onlyGets()
		defer b.acquire(web)()
		pass(untilPolled)
		b.wantChanges(web, 2)
		b.AnswerGets(forbiddenGet())
		pass(longestPause + recheck + longestSilence)
		b.wantNow(polling(holding(o)).with(forbiddenList()).revoked(), 2) // That it is denied, and that it stays so.
		b.AnswerGets(nil)
		b.wantAfter(longestSilence, polling(holding(o)), 1)
	})
}
