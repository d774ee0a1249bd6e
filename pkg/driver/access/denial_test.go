package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
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
	if err != nil {
		t.Fatal(err)
	}
	vault := access.NewVault(files)
	for i, token := range tokens { // The one that lives longest is the first.
		expires := time.Now().Add(time.Duration(10-i) * time.Hour)
		if err := vault.Store(token, pod(), access.NewToken(token, expires)); err != nil {
			t.Fatal(err)
		}
	}
	all := types(t)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "driver", QPS: -1}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := all.Client(config, client, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	reviews, err := all.Client(config, client, authorizationv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	a, err := access.New(access.Config{
		Types: all, Driver: core, Reviews: reviews, Server: config, Vault: vault,
		ConfigMaps: access.ByPod, Secrets: access.ByPod,
	})
	if err != nil {
		t.Fatal(err)
	}
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
		for id, want := range map[access.Identity]string{access.Of(pod()): tt.byPod, access.OnBehalf(pod()): tt.forThePod} {
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
		id     access.Identity
		tokens []string
		want   []string
	}{
		"the pod's": {access.Of(pod()), []string{"pods"}, []string{"pods GET /readyz", "pods POST " + own}},
		"the pod's, by its second token": {access.Of(pod()), []string{"stale", "pods"}, []string{
			"stale GET /readyz", "pods GET /readyz", "pods POST " + own,
		}},
		"the pod's, by the token that outlives the other": {access.Of(pod()), []string{"dying", "pods"}, []string{
			"dying GET /readyz", "dying POST " + own, "pods POST " + own,
		}},
		"the driver's": {access.OnBehalf(pod()), []string{"pods"}, []string{"driver GET /readyz", "driver POST " + anybodys}},
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
