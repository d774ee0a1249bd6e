package access_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// TestEffects is the table of the package comment, and what differs for the driver's own identity.
func TestEffects(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away, tooLarge := errors.New("connection refused"), &budget.ExhaustedError{}
	pod, driver := access.Of(api.Pod{Namespace: "team", ServiceAccount: "web"}), access.Driver()
	uses := []access.Use{{}, {IsLive: true}, {IsLive: true, FollowsLoss: true}}
	const serve, refuse, await, remove = access.Serve, access.Refuse, access.Await, access.Remove
	for name, test := range map[string]struct {
		evidence access.Evidence
		want     [3]access.Effect // New, live, and live with onDelete: Remove.
	}{
		"read":                                {access.Evidence{Identity: pod, WasRead: true}, [3]access.Effect{serve, serve, serve}},
		"read, then denied":                   {access.Evidence{Identity: pod, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read, then not readable":             {access.Evidence{Identity: pod, WasRead: true, Err: away}, [3]access.Effect{refuse, serve, serve}},
		"read, then too large":                {access.Evidence{Identity: pod, WasRead: true, Err: tooLarge}, [3]access.Effect{serve, serve, serve}},
		"denied at first":                     {access.Evidence{Identity: pod, Err: denied}, [3]access.Effect{refuse, await, await}},
		"not readable at first":               {access.Evidence{Identity: pod, Err: away}, [3]access.Effect{refuse, refuse, refuse}},
		"not answered yet":                    {access.Evidence{Identity: pod}, [3]access.Effect{refuse, refuse, refuse}},
		"read, then revoked":                  {access.Evidence{Identity: pod, WasRead: true, Revoked: true, Err: denied}, [3]access.Effect{refuse, serve, remove}},
		"revoked at first":                    {access.Evidence{Identity: pod, Revoked: true, Err: denied}, [3]access.Effect{refuse, refuse, remove}},
		"read by the driver, then denied":     {access.Evidence{Identity: driver, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read by the driver, then not at all": {access.Evidence{Identity: driver, WasRead: true, Err: away}, [3]access.Effect{serve, serve, serve}},
		"the driver denied at first":          {access.Evidence{Identity: driver, Err: denied}, [3]access.Effect{refuse, refuse, refuse}},
	} {
		for i, use := range uses {
			if got := test.evidence.EffectOn(use); got != test.want[i] {
				t.Errorf("%s: %s for %+v, want %s", name, got, use, test.want[i])
			}
		}
	}
}

// TestDenialsCount: only denials of a pod, without another answer among them, for the recheck interval, and confirmed.
func TestDenialsCount(t *testing.T) {
	t.Parallel()
	const recheck = time.Minute
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away := errors.New("connection refused")
	pod := access.Of(api.Pod{Namespace: "team", ServiceAccount: "web"})
	type answer struct {
		of  access.Identity
		err error
	}
	var never, again answer
	for name, test := range map[string]struct {
		answers []answer // One comes every 30 seconds. The zero value stands for no answer.
		denies  bool
		err     error
		asks    bool
		want    bool
	}{
		"no answer":                   {answers: []answer{never}},
		"denials":                     {answers: []answer{{pod, denied}, {pod, denied}, {pod, denied}}, denies: true, asks: true, want: true},
		"denials for too short":       {answers: []answer{{pod, denied}, {pod, denied}}, denies: true},
		"nothing since a denial":      {answers: []answer{{pod, denied}, again, again}, denies: true, asks: true, want: true},
		"a success among them":        {answers: []answer{{pod, denied}, {pod, nil}, {pod, denied}}, denies: true},
		"another error among them":    {answers: []answer{{pod, denied}, {pod, away}, {pod, denied}}, denies: true},
		"denials of the driver":       {answers: []answer{{access.Driver(), denied}, again, {access.Driver(), denied}}, denies: true},
		"denials that are not so":     {answers: []answer{{pod, denied}, again, {pod, denied}}, asks: true},
		"denials that nobody can ask": {answers: []answer{{pod, denied}, again, {pod, denied}}, denies: true, err: away, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d access.Denials
				for i, a := range test.answers {
					if i > 0 {
						time.Sleep(recheck / 2) //nolint:forbidigo // It takes no time.
					}
					if a != never {
						d.Note(a.of, a.err)
					}
				}
				asked := 0
				confirm := func() (bool, error) { asked++; return test.denies, test.err }
				got, err := d.Count(recheck, confirm)
				if got != test.want || !errors.Is(err, test.err) || (asked == 1) != test.asks {
					t.Errorf("Count = %t, %v after asking %d times, want %t, %v", got, err, asked, test.want, test.err)
				}
				if got, _ := d.Count(recheck, confirm); got != test.want || !test.denies && asked > 1 {
					t.Errorf("Count = %t at once again, after asking %d times", got, asked)
				}
			})
		})
	}
}
