package access_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

// types are those of the clients.
func types(t *testing.T) *kubeclient.Types {
	t.Helper()
	types, err := kubeclient.New()
	expect.NoError(t, err)
	return types
}

// authority returns one that asks an API server for reviews.
func authority(t *testing.T, server http.RoundTripper, configMaps, secrets identity.Reader) *access.Authority {
	t.Helper()
	all := types(t)
	config := &rest.Config{Host: "https://localhost"}
	reviews, err := all.Client(config, &http.Client{Transport: server}, authorizationv1.SchemeGroupVersion)
	expect.NoError(t, err)
	a, err := access.New(access.Config{
		Types: all, Reviews: reviews, Server: config, Readers: identity.Readers{ConfigMaps: configMaps, Secrets: secrets},
	})
	expect.NoError(t, err)
	return a
}

// TestWhoseClientItIs: what the driver reads for itself or on behalf of a pod goes out with its
// own credentials, and nothing else does.
func TestWhoseClientItIs(t *testing.T) {
	t.Parallel()
	all, err := access.New(access.Config{
		Driver: driverClient{}, Types: types(t), Server: &rest.Config{Host: "https://localhost"},
		Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByDriver},
	})
	expect.NoError(t, err)
	for id, want := range map[identity.Identity]bool{
		identity.Driver(): true, identity.OnBehalf(pod()): true, identity.Of(pod()): false,
	} {
		client, err := all.Client(id)
		if _, got := client.(driverClient); got != want || err != nil {
			t.Errorf("Client(%s) = %T, %v, want the driver's: %t", id, client, err, want)
		}
	}
}

// driverClient is a client with a type that a test can recognize.
type driverClient struct{ rest.Interface }

// TestEffects is the table of the package comment, and what differs for the driver's own identity.
func TestEffects(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away, tooLarge := errors.New("connection refused"), &budget.ExhaustedError{}
	pod, driver := identity.Of(api.Pod{Namespace: "team", ServiceAccount: "web"}), identity.Driver()
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
	pod := identity.Of(api.Pod{Namespace: "team", ServiceAccount: "web"})
	type answer struct {
		of  identity.Identity
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
		"denials of the driver":       {answers: []answer{{identity.Driver(), denied}, again, {identity.Driver(), denied}}, denies: true},
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
