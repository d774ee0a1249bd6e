package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// judge is an API server that reports whether it is ready, and answers reviews.
type judge struct {
	ready  int // The status of its readiness.
	review int // The status of reviews: 201 for an answer.
	answer authorizationv1.SubjectAccessReviewStatus

	mu    sync.Mutex // Guards the fields below.
	asked []string   // The token, the method and the path of each request.
	about []authorizationv1.ResourceAttributes
}

func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, token+" "+r.Method+" "+r.URL.Path)
	code := j.ready
	switch {
	case token == "stale", token == "dying" && r.Method == http.MethodPost:
		code = http.StatusUnauthorized
	case r.URL.Path != "/readyz":
		code = j.review
	}
	var own authorizationv1.SelfSubjectAccessReview
	if r.Method == http.MethodPost && code == http.StatusCreated {
		if err := json.NewDecoder(r.Body).Decode(&own); err != nil || own.Spec.ResourceAttributes == nil {
			code = http.StatusBadRequest // As of a body that was sent before.
		} else {
			j.about = append(j.about, *own.Spec.ResourceAttributes)
		}
	}
	if code == http.StatusOK {
		_, _ = w.Write([]byte("ok"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if code != http.StatusCreated {
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"no","reason":%q}`,
			code, strings.ReplaceAll(http.StatusText(code), " ", ""))
		return
	}
	own.Status = j.answer
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		own.Kind = "SubjectAccessReview"
	}
	_ = json.NewEncoder(w).Encode(own)
}

// serve returns an authority over the server, with a token of the pod's.
func (j *judge) serve(t *testing.T, tokens ...string) *access.Authority {
	t.Helper()
	server := httptest.NewUnstartedServer(j)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	files, err := state.NewFiles(t.TempDir())
	expect.NoError(t, err)
	vault := access.NewVault(files)
	for i, token := range tokens { // The one that lives longest is the first.
		expires := time.Now().Add(time.Duration(10-i) * time.Hour)
		expect.NoError(t, vault.Store(token, pod(), access.NewToken(token, expires)))
	}
	all := types(t)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "driver", QPS: -1}
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	core, err := all.Client(config, client, corev1.SchemeGroupVersion)
	expect.NoError(t, err)
	reviews, err := all.Client(config, client, authorizationv1.SchemeGroupVersion)
	expect.NoError(t, err)
	a, err := access.New(access.Config{
		Types: all, Driver: core, Reviews: reviews, Server: config, Vault: vault,
		Readers: identity.Readers{ConfigMaps: identity.ByPod, Secrets: identity.ByPod},
	})
	expect.NoError(t, err)
	return a
}

// TestDenies: only a server that may have read its roles, and whose review is a denial, confirms
// one. This is fault 28.
func TestDenies(t *testing.T) {
	t.Parallel()
	const ok, forbidden, created = http.StatusOK, http.StatusForbidden, http.StatusCreated
	no, yes := authorizationv1.SubjectAccessReviewStatus{}, authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	broken := authorizationv1.SubjectAccessReviewStatus{EvaluationError: "a webhook is away"}
	const denied, allowed, unknown = "denied", "allowed", "unknown"
	tests := map[string]struct {
		ready, review    int
		answer           authorizationv1.SubjectAccessReviewStatus
		byPod, forThePod string // By the pod's token, and by the driver for the pod.
	}{
		"a server that is ready":                        {ok, created, no, denied, denied},
		"that it is ready is hidden":                    {forbidden, created, no, denied, denied},
		"that it is ready is not known":                 {http.StatusNotFound, created, no, denied, denied},
		"it is not ready":                               {http.StatusInternalServerError, created, no, unknown, unknown},
		"it has too much to do":                         {http.StatusTooManyRequests, created, no, unknown, unknown},
		"it takes no token":                             {http.StatusUnauthorized, created, no, unknown, unknown},
		"the review says yes":                           {ok, created, yes, allowed, allowed},
		"the review cannot tell":                        {ok, created, broken, unknown, unknown},
		"no review, of a server that is ready":          {ok, forbidden, no, denied, unknown},
		"no review, and that it is ready is hidden":     {forbidden, forbidden, no, unknown, unknown},
		"no review, and that it is ready is unknown":    {http.StatusNotFound, forbidden, no, unknown, unknown},
		"a review that fails, of one that is ready":     {ok, http.StatusInternalServerError, no, unknown, unknown},
		"a review that is too much for one":             {ok, http.StatusTooManyRequests, no, unknown, unknown},
		"no token for the review, of one that is ready": {ok, http.StatusUnauthorized, no, unknown, unknown},
	}
	for name, tt := range tests {
		for id, want := range map[identity.Identity]string{identity.Of(pod()): tt.byPod, identity.OnBehalf(pod()): tt.forThePod} {
			t.Run(name+", "+id.String(), func(t *testing.T) {
				t.Parallel()
				j := &judge{ready: tt.ready, review: tt.review, answer: tt.answer}
				got := allowed
				switch denies, err := j.serve(t, "pods").Denies(t.Context(), id, tls); {
				case err != nil && denies:
					t.Errorf("Denies = %t, %v, want an error or an answer", denies, err)
				case err != nil:
					got = unknown
				case denies:
					got = denied
				}
				if got != want {
					t.Errorf("Denies: %s, want %s", got, want)
				}
			})
		}
	}
}

// TestWhoIsAskedWhetherItIsSure: the server of a pod's requests, with the pod's token and about
// the object only. A refused token is replaced by the next one, and the question is repeated with
// it.
func TestWhoIsAskedWhetherItIsSure(t *testing.T) {
	t.Parallel()
	const own, anybodys = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	tests := map[string]struct {
		id     identity.Identity
		tokens []string
		want   []string
	}{
		"the pod's": {identity.Of(pod()), []string{"pods"}, []string{"pods GET /readyz", "pods POST " + own}},
		"the pod's, by its second token": {identity.Of(pod()), []string{"stale", "pods"}, []string{
			"stale GET /readyz", "pods GET /readyz", "pods POST " + own,
		}},
		"the pod's, by the token that outlives the other": {identity.Of(pod()), []string{"dying", "pods"}, []string{
			"dying GET /readyz", "dying POST " + own, "pods POST " + own,
		}},
		"the driver's": {identity.OnBehalf(pod()), []string{"pods"}, []string{"driver GET /readyz", "driver POST " + anybodys}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &judge{ready: http.StatusOK, review: http.StatusCreated}
			if denies, err := j.serve(t, tt.tokens...).Denies(t.Context(), tt.id, tls); !denies || err != nil {
				t.Fatalf("Denies = %t, %v, want it denied", denies, err)
			}
			if diff := cmp.Diff(tt.want, j.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			want := []authorizationv1.ResourceAttributes{{
				Namespace: tls.Namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: tls.Name,
			}}
			if diff := cmp.Diff(want, j.about); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

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

func (r *reviewer) allow(id identity.Identity, ref api.Ref) error {
	r.t.Helper()
	return authority(r.t, r, identity.ByDriver, identity.ByDriver).Allow(r.t.Context(), id, ref)
}

// TestAllow: where the API server decides with the request itself, nothing is asked. A denial is
// the error of the request itself, and no other error is a denial: files of a volume may go with
// one. The driver may be denied to ask, and the API server may be unable to decide, which fails
// the request itself too.
func TestAllow(t *testing.T) {
	t.Parallel()
	if err := (&reviewer{t: t, err: errors.New("asked")}).allow(identity.Driver(), tls); err != nil {
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
		id     identity.Identity
		ref    api.Ref
		status status
		err    error
		want   string // The text of the error.
	}{
		"the pod":                       {id: identity.Of(pod()), ref: tls, err: errors.New("asked")},
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
			id, isAsked := test.id, test.id == identity.Identity{}
			if isAsked {
				id = identity.OnBehalf(pod())
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

// TestSelectionsAreListedAndWatched: a right to get single objects is not enough to select by label.
func TestSelectionsAreListedAndWatched(t *testing.T) {
	t.Parallel()
	type status = authorizationv1.SubjectAccessReviewStatus
	for name, namespace := range map[string]string{"of one namespace": "shop", "of all": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := api.Ref{Kind: api.Secret, Namespace: namespace}
			about := func(verb string) authorizationv1.ResourceAttributes {
				return authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Version: "v1", Resource: "secrets"}
			}
			r := &reviewer{t: t, status: status{Allowed: true}}
			expect.NoError(t, r.allow(identity.OnBehalf(pod()), ref))
			var asked []authorizationv1.ResourceAttributes
			for _, spec := range r.asked {
				asked = append(asked, *spec.ResourceAttributes)
			}
			want := []authorizationv1.ResourceAttributes{about("list"), about("watch")}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("Allow asks (-want +got):\n%s", diff)
			}
			denied := (&reviewer{t: t}).allow(identity.OnBehalf(pod()), ref)
			if !apierrors.IsForbidden(denied) || !strings.HasSuffix(denied.Error(), "may not list "+ref.String()) {
				t.Errorf("Allow = %v, want a denial to list %s", denied, ref)
			}
			for allowed, want := range map[bool]int{true: 2, false: 1} {
				j := &judge{ready: http.StatusOK, review: http.StatusCreated, answer: status{Allowed: allowed}}
				isDenied, err := j.serve(t, "good").Denies(t.Context(), identity.Of(pod()), ref)
				expect.NoError(t, err)
				if isDenied == allowed || len(j.about) != want || j.about[0] != about("list") {
					t.Errorf("Denies = %t after %+v, want %t after %d reviews", isDenied, j.about, !allowed, want)
				}
			}
		})
	}
}
