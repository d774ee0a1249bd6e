package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// reviewer is an API server that answers every review with the status or the error, and records
// the questions.
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
	if status, ok := r.err.(apierrors.APIStatus); ok { // A wrapped one is not an answer of the API.
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

// TestAllow: where the API server decides with the request itself, nothing is asked. A denial is
// the error of the request itself, and no other error is a denial: files of a volume may go with
// one. The driver may be denied to ask, and the API server may be unable to decide, which fails
// the request itself too.
func TestAllow(t *testing.T) {
	t.Parallel()
	if err := (&reviewer{t: t, err: errors.New("asked")}).allow(access.Driver(), tls); err != nil {
		t.Errorf("Allow for the driver = %v, want nil", err)
	}
	type status = authorizationv1.SubjectAccessReviewStatus
	mayNotAsk := apierrors.NewForbidden(schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "",
		errors.New("driver cannot create it"))
	const (
		denied = ` is forbidden: serviceaccount default/runner may not get it`
		open   = "ask whether serviceaccount default/runner may get secret certs/tls: "
		sent   = open + `Post "` + reviews + `": `
	)
	for name, test := range map[string]struct {
		id     access.Identity
		ref    api.Ref
		status status
		err    error
		want   string // The text of the error.
	}{
		"the pod":                       {id: access.Of(pod()), ref: tls, err: errors.New("asked")},
		"it is allowed":                 {ref: tls, status: status{Allowed: true}},
		"it is allowed, and one failed": {ref: tls, status: status{Allowed: true, EvaluationError: "a role is missing"}},
		"nobody allows a Secret":        {ref: tls, want: `secrets "tls"` + denied},
		"nobody allows a ConfigMap":     {ref: settings, want: `configmaps "settings"` + denied},
		"somebody denies it":            {ref: tls, status: status{Denied: true, Reason: "by policy"}, want: `secrets "tls"` + denied},
		"the driver may not ask":        {ref: tls, err: mayNotAsk, want: open + mayNotAsk.Error()},
		"another wraps that":            {ref: tls, err: fmt.Errorf("ask: %w", mayNotAsk), want: sent + "ask: " + mayNotAsk.Error()},
		"the API server is away":        {ref: tls, err: errors.New("connection refused"), want: sent + "connection refused"},
		"the answer takes too long":     {ref: tls, err: context.DeadlineExceeded, want: sent + context.DeadlineExceeded.Error()},
		"an authorizer fails":           {ref: tls, status: status{EvaluationError: "webhook timed out"}, want: open + "webhook timed out"},
		"it is denied, and one failed":  {ref: tls, status: status{Denied: true, EvaluationError: "torn"}, want: open + "torn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{t: t, status: test.status, err: test.err}
			id, isAsked := test.id, test.id == access.Identity{}
			if isAsked {
				id = access.OnBehalf(pod())
			}
			err := r.allow(id, test.ref)
			if text := fmt.Sprint(err); text != test.want && (err != nil || test.want != "") {
				t.Errorf("Allow = %v, want %s", err, test.want)
			}
			isDenial := strings.HasSuffix(test.want, denied)
			review, isOpen := errors.AsType[*access.ReviewError](err)
			if apierrors.IsForbidden(err) != isDenial || isOpen != (err != nil && !isDenial) {
				t.Errorf("Allow = %v (%T), want a denial (%t) or a *ReviewError", err, err, isDenial)
			}
			if isOpen && (review.Identity != id || review.Ref != test.ref) {
				t.Errorf("Allow = %+v, want it about %s and %s", review, id, test.ref)
			}
			if !isAsked && len(r.asked) > 0 {
				t.Errorf("reviews = %v, want none", r.asked)
			} else if isAsked {
				r.wantAsked(test.ref)
			}
		})
	}
}

// wantAsked compares the whole review: the service account as the API server knows it, and one
// object.
func (r *reviewer) wantAsked(ref api.Ref) {
	r.t.Helper()
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User:   "system:serviceaccount:default:runner",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: ref.Kind.Resource() + "s", Namespace: ref.Namespace, Name: ref.Name,
		},
	}}
	if diff := cmp.Diff(want, r.asked); diff != "" {
		r.t.Errorf("reviews (-want +got):\n%s", diff)
	}
}
