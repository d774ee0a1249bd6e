package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

var (
	tls      = api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}
	settings = api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "settings"}
)

// reviewer is an API server that answers every review with the status or the error, and remembers what it was asked.
type reviewer struct {
	t      *testing.T
	status authorizationv1.SubjectAccessReviewStatus
	err    error // A status of the API is answered; anything else is the network's.
	asked  []authorizationv1.SubjectAccessReviewSpec
}

// reviews is where they are asked for.
const reviews = "https://localhost/apis/authorization.k8s.io/v1/subjectaccessreviews"

// RoundTrip is [http.RoundTripper].
func (r *reviewer) RoundTrip(request *http.Request) (*http.Response, error) {
	var review authorizationv1.SubjectAccessReview
	err := json.NewDecoder(request.Body).Decode(&review)
	if got := request.Method + " " + request.URL.String(); err != nil || got != "POST "+reviews {
		r.t.Errorf("request %s, %v; want reviews only", got, err)
	}
	r.asked = append(r.asked, review.Spec)
	review.Status = r.status
	var answer any = review
	code := http.StatusCreated
	if status, ok := r.err.(apierrors.APIStatus); ok { // What wraps one is no answer of the API.
		said := status.Status()
		said.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		answer, code = said, int(said.Code)
	} else if r.err != nil {
		return nil, r.err
	}
	body, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

func (r *reviewer) allow(id access.Identity, ref api.Ref) error {
	r.t.Helper()
	return authority(r.t, r, access.ByDriver, access.ByDriver).Allow(r.t.Context(), id, ref)
}

// TestNobodyIsAskedAboutOthers: where the API server decides with the request itself, nothing is to be found out.
func TestNobodyIsAskedAboutOthers(t *testing.T) {
	t.Parallel()
	for _, id := range []access.Identity{access.Driver(), access.Of(pod())} {
		r := &reviewer{t: t, err: errors.New("asked")}
		if err := r.allow(id, tls); err != nil {
			t.Errorf("Allow(%s) = %v, want nil", id, err)
		}
		if got := r.asked; len(got) != 0 {
			t.Errorf("Allow(%s) made requests: %v, want none", id, got)
		}
	}
}

// TestWhatIsAsked compares the whole review: the service account as the API server knows it, and one object.
func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	for ref, resource := range map[api.Ref]string{tls: "secrets", settings: "configmaps"} {
		t.Run(ref.String(), func(t *testing.T) {
			t.Parallel()
			r := &reviewer{t: t, status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
			if err := r.allow(access.OnBehalf(pod()), ref); err != nil {
				t.Errorf("Allow = %v, want nil", err)
			}
			want := authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:default:runner",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "get", Version: "v1", Resource: resource, Namespace: ref.Namespace, Name: ref.Name,
				},
			}
			if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{want}, r.asked); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADenialIsWhatTheRequestWouldGive(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		ref    api.Ref
		want   string
	}{
		"nobody allows a secret": {
			ref: tls, want: `secrets "tls" is forbidden: serviceaccount default/runner may not get it`,
		},
		"nobody allows a config map": {
			ref: settings, want: `configmaps "settings" is forbidden: serviceaccount default/runner may not get it`,
		},
		"somebody denies it": {
			status: authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "by policy"},
			ref:    tls, want: `secrets "tls" is forbidden: serviceaccount default/runner may not get it`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&reviewer{t: t, status: tt.status}).allow(access.OnBehalf(pod()), tt.ref)
			if !apierrors.IsForbidden(err) || err.Error() != tt.want {
				t.Errorf("Allow = %v, want a denial: %s", err, tt.want)
			}
			if _, ok := errors.AsType[*access.ReviewError](err); ok {
				t.Errorf("Allow = %v, which is a *ReviewError, want a denial", err)
			}
		})
	}
}

// TestWhatCannotBeFoundOutIsNoDenial: files of a volume may go with a denial, and with nothing else. The driver itself may
// be denied, and the API server may be unable to decide, to which it answers the request itself with an internal error.
func TestWhatCannotBeFoundOutIsNoDenial(t *testing.T) {
	t.Parallel()
	mayNotAsk := apierrors.NewForbidden(schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "",
		errors.New("driver cannot create it"))
	const sent = `Post "` + reviews + `": `
	undecided := authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook timed out"}
	tests := map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		err    error
		cause  string
	}{
		"the driver may not ask":      {err: mayNotAsk, cause: mayNotAsk.Error()},
		"another wraps that":          {err: fmt.Errorf("ask: %w", mayNotAsk), cause: sent + "ask: " + mayNotAsk.Error()},
		"the API server is away":      {err: errors.New("connection refused"), cause: sent + "connection refused"},
		"it was asked for too long":   {err: context.DeadlineExceeded, cause: sent + context.DeadlineExceeded.Error()},
		"the API server cannot tell":  {status: undecided, cause: "webhook timed out"},
		"it is denied, and who knows": {status: authorizationv1.SubjectAccessReviewStatus{Denied: true, EvaluationError: "torn"}, cause: "torn"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&reviewer{t: t, status: tt.status, err: tt.err}).allow(access.OnBehalf(pod()), tls)
			review, ok := errors.AsType[*access.ReviewError](err)
			if !ok || apierrors.IsForbidden(err) {
				t.Fatalf("Allow = %v (%T), forbidden: %t; want a *ReviewError that is no denial", err, err, apierrors.IsForbidden(err))
			}
			want := "ask whether serviceaccount default/runner may get secret certs/tls: " + tt.cause
			if err.Error() != want || review.Identity != access.OnBehalf(pod()) || review.Ref != tls {
				t.Errorf("Allow = %v, want %s", err, want)
			}
		})
	}
}

// TestAnAllowanceCountsThoughSomethingFailed: one authorizer that says yes is enough, as for the request itself.
func TestAnAllowanceCountsThoughSomethingFailed(t *testing.T) {
	t.Parallel()
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "a role is missing"}
	if err := (&reviewer{t: t, status: status}).allow(access.OnBehalf(pod()), tls); err != nil {
		t.Errorf("Allow = %v, want nil", err)
	}
}
