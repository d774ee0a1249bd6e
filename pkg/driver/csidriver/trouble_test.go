package csidriver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAwayBeforeTheFirstAnswer: Check waits until the API server is there. The same trouble is
// logged once.
func TestAwayBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		is   trouble
		want string
	}{
		"refused": {
			refused(), `Get "http://api/apis/storage.k8s.io/v1/csidrivers?fieldSelector=metadata.name%3Dcsi.example.org": ` +
				`dial tcp: connect: connection refused`,
		},
		"overloaded":   {overloaded(), "overloaded"},
		"unauthorized": {unauthorized(), "not yet"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.put(new(true))
				f.suffer(test.is)
				f.start()
				result := make(chan error, 1)
				go func() { result <- f.Check(f.t.Context()) }()
				pass(10 * time.Minute)
				if len(result) > 0 {
					f.t.Fatalf("Check = %v before the API server has answered", <-result)
				}
				f.want(unread)
				f.wantError("whether the kubelet vouches for pods is not known: " +
					"the CSIDriver object csi.example.org cannot be read: " + test.want)
				f.wantLog(logWaiting)

				f.suffer(trouble{})
				pass(longestSilence)
				if err := <-result; err != nil {
					f.t.Errorf("Check = %v, want nil", err)
				}
				f.wantLog(logRight, logAgain)
			})
		})
	}
}

// TestForbiddenFromTheStart: a denial is an answer, so no publish waits for another one. It heals
// by itself once somebody grants the right.
func TestForbiddenFromTheStart(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(new(true))
		f.suffer(denied())
		f.start()
		began := time.Now()
		err := f.Check(f.t.Context())
		if got := time.Since(began); got != 0 {
			f.t.Errorf("Check took %v, want no time", got)
		}
		if kindOf(f.t, err) != unread || !apierrors.IsForbidden(err) {
			f.t.Errorf("Check = %v, want it to be %s and to wrap the API server's error", err, unread)
		}
		pass(time.Hour)
		f.wantError("whether the kubelet vouches for pods is not known: the CSIDriver object csi.example.org cannot be read: " +
			"csidrivers.storage.k8s.io is forbidden: User \"driver\" cannot list resource \"csidrivers\"; add to the rules of the " +
			"driver's ClusterRole: {apiGroups: [storage.k8s.io], resources: [csidrivers], resourceNames: [csi.example.org], " +
			"verbs: [get, list, watch]}")
		f.wantLog(logWaiting)

		f.suffer(trouble{})
		pass(longestSilence)
		f.want(right)
		f.wantLog(logRight, logAgain)
	})
}

// TestTroubleKeepsWhatIsKnown ends a watch that worked. The end of the trouble shows what has
// happened.
func TestTroubleKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object func(*fixture)
		is     trouble
	}{
		right:   {func(f *fixture) { f.put(new(true)) }, denied()},
		wrong:   {func(f *fixture) { f.put(new(false)) }, refused()},
		missing: {func(*fixture) {}, overloaded()},
	}
	for known, test := range tests {
		t.Run(known, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				test.object(f)
				f.start()
				f.want(known)
				f.skipLog()
				pass(time.Minute) // A watch that ends sooner is not taken for one that was open.
				f.suffer(test.is)
				f.hangUp()
				pass(10 * time.Minute)
				f.want(known)
				f.wantLog(logStays)

				becomes, lines := right, []string{logRight, logAgain}
				if known == right {
					f.remove()
					becomes, lines = missing, []string{logWrong, logAgain}
				} else {
					f.put(new(true))
				}
				f.want(known)
				f.suffer(trouble{})
				pass(longestSilence)
				f.want(becomes)
				f.wantLog(lines...)
			})
		})
	}
}

// TestAnObjectThatWasMendedUnseen: the message explains a delay to a user who has typed the
// command.
func TestAnObjectThatWasMendedUnseen(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(nil)
		f.start()
		f.want(wrong)
		f.suffer(overloaded())
		f.hangUp()
		pass(time.Minute)
		f.put(new(true))
		f.wantError(unvouched + "; " +
			"a change may be seen late: the CSIDriver object csi.example.org cannot be read: overloaded")
	})
}

// TestTheLogHasTheCommand, and the trouble. It leaves out trouble that was over before another
// finding.
func TestTheLogHasTheCommand(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(new(true))
		f.start()
		f.want(right)
		f.suffer(overloaded())
		f.hangUp()
		pass(time.Minute)
		f.put(nil)
		f.suffer(trouble{})
		pass(longestSilence)
		f.want(wrong)
		want := []string{"<nil>", "the CSIDriver object csi.example.org cannot be read: overloaded", unvouched, "<nil>"}
		var got []string
		for _, e := range f.log.Data() {
			got = append(got, fmt.Sprint(e.Err))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("errors in the log (-want +got):\n%s", diff)
		}
	})
}

// TestAnotherSortOfTroubleIsNews, and another text of the same sort is not.
func TestAnotherSortOfTroubleIsNews(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.put(new(true))
		f.start()
		f.wantLog(logRight)
		f.suffer(refused())
		f.hangUp()
		pass(time.Minute)
		f.wantLog(logStays)
		f.suffer(overloaded())
		pass(time.Minute)
		f.wantLog()
		f.suffer(denied())
		pass(time.Minute)
		f.wantLog(logStays)
		f.suffer(refused())
		pass(time.Minute)
		f.wantLog(logStays)
		f.suffer(trouble{})
		pass(time.Minute)
		f.wantLog(logAgain)
		f.want(right)
	})
}
