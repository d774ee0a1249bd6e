package release

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestPerson: the name is that of the API server, is short, and is one line.
func TestPerson(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		username string
		err      error
		want     string
	}{
		"a name":               {"jane@example.com", nil, "jane@example.com"},
		"a long name":          {strings.Repeat("ä", 100), nil, strings.Repeat("ä", 64) + "…"},
		"a name of many lines": {"jane\nfrozen by joe", nil, `jane\nfrozen by joe`},
		"a name of signs":      {strings.Repeat("\x1b", 100), nil, strings.Repeat(`\x1b`, 32) + "…"},
		"no name":              {"", nil, "somebody"},
		"no answer":            {"", errors.New("no such resource"), "somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "selfsubjectreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, &authenticationv1.SelfSubjectReview{
					Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: tc.username}},
				}, tc.err
			})
			var remarks bytes.Buffer
			o := &act{target: target{Session: &session.Session{IOStreams: genericiooptions.IOStreams{ErrOut: &remarks}}}}
			if got := o.person(t.Context(), client); got != tc.want {
				t.Errorf("the name is %q, want %q", got, tc.want)
			}
			if isRemarked := remarks.Len() > 0; isRemarked != (tc.want == "somebody") {
				t.Errorf("the remarks are %q", remarks.String())
			}
		})
	}
}

// TestEvents of people have the reasons that those of the controller have.
func TestEvents(t *testing.T) {
	t.Parallel()
	for state, want := range map[release.State]struct{ kind, reason string }{
		"":               {corev1.EventTypeNormal, controller.ReasonPromoted},
		release.Frozen:   {corev1.EventTypeWarning, controller.ReasonFrozen},
		release.Reverted: {corev1.EventTypeWarning, controller.ReasonReverted},
	} {
		client := fake.NewClientset()
		o := &act{state: state, because: "done by jane: why"}
		if err := o.event(t.Context(), client, stable.Object{Ref: api.Ref{Kind: api.Secret, Namespace: "n", Name: "web"}, UID: "u"}); err != nil {
			t.Fatal(err)
		}
		events, err := client.CoreV1().Events("n").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) != 1 {
			t.Fatalf("there are the Events %v, %v, want one", events, err)
		}
		e := events.Items[0]
		if e.Type != want.kind || e.Reason != want.reason || !strings.HasSuffix(e.Message, ": done by jane: why") || e.InvolvedObject.Kind != "Secret" ||
			e.InvolvedObject.Name != "web" || e.InvolvedObject.UID != "u" {
			t.Errorf("the Event of %q is %+v, want %v", state, e, want)
		}
	}
}
