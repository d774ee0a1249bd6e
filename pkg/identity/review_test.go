package identity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

var (
	tls      = api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}
	settings = api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "settings"}
)

// reviewer returns a clientset that answers every review with the status or the error.
func reviewer(status authorizationv1.SubjectAccessReviewStatus, err error) *fake.Clientset {
	clients := fake.NewClientset()
	clients.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{Status: status}, err
	})
	return clients
}

func allowFrom(t *testing.T, clients *fake.Clientset, id identity.Identity, ref api.Ref) error {
	t.Helper()
	return authority(t, clients, identity.ByDriver, identity.ByDriver).Allow(t.Context(), id, ref)
}

// TestNobodyIsAskedAboutOthers: where the API server decides with the request itself, nothing is to be found out.
func TestNobodyIsAskedAboutOthers(t *testing.T) {
	t.Parallel()
	for _, id := range []identity.Identity{identity.Driver(), identity.Of(pod())} {
		clients := reviewer(authorizationv1.SubjectAccessReviewStatus{}, errors.New("asked"))
		if err := allowFrom(t, clients, id, tls); err != nil {
			t.Errorf("Allow(%s) = %v, want nil", id, err)
		}
		if got := clients.Actions(); len(got) != 0 {
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
			clients := reviewer(authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil)
			if err := allowFrom(t, clients, identity.OnBehalf(pod()), ref); err != nil {
				t.Errorf("Allow = %v, want nil", err)
			}
			want := authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:default:runner",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "get", Version: "v1", Resource: resource, Namespace: ref.Namespace, Name: ref.Name,
				},
			}
			if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{want}, asked(t, clients)); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

// asked returns what was asked so far, which are all requests.
func asked(t *testing.T, clients *fake.Clientset) []authorizationv1.SubjectAccessReviewSpec {
	t.Helper()
	var specs []authorizationv1.SubjectAccessReviewSpec
	for _, action := range clients.Actions() {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			t.Errorf("request %v, want reviews only", action)
			continue
		}
		review, ok := create.GetObject().(*authorizationv1.SubjectAccessReview)
		if !ok {
			t.Errorf("request %v, want reviews only", action)
			continue
		}
		specs = append(specs, review.Spec)
	}
	return specs
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
			err := allowFrom(t, reviewer(tt.status, nil), identity.OnBehalf(pod()), tt.ref)
			if !apierrors.IsForbidden(err) || err.Error() != tt.want {
				t.Errorf("Allow = %v, want a denial: %s", err, tt.want)
			}
			if _, ok := errors.AsType[*identity.ReviewError](err); ok {
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
	undecided := authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook timed out"}
	tests := map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		err    error
		cause  string
	}{
		"the driver may not ask":      {err: mayNotAsk, cause: mayNotAsk.Error()},
		"another wraps that":          {err: fmt.Errorf("ask: %w", mayNotAsk), cause: "ask: " + mayNotAsk.Error()},
		"the API server is away":      {err: errors.New("connection refused"), cause: "connection refused"},
		"it was asked for too long":   {err: context.DeadlineExceeded, cause: context.DeadlineExceeded.Error()},
		"the API server cannot tell":  {status: undecided, cause: "webhook timed out"},
		"it is denied, and who knows": {status: authorizationv1.SubjectAccessReviewStatus{Denied: true, EvaluationError: "torn"}, cause: "torn"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := allowFrom(t, reviewer(tt.status, tt.err), identity.OnBehalf(pod()), tls)
			review, ok := errors.AsType[*identity.ReviewError](err)
			if !ok || apierrors.IsForbidden(err) {
				t.Fatalf("Allow = %v (%T), forbidden: %t; want a *ReviewError that is no denial", err, err, apierrors.IsForbidden(err))
			}
			want := "ask whether serviceaccount default/runner may get secret certs/tls: " + tt.cause
			if err.Error() != want || review.Identity != identity.OnBehalf(pod()) || review.Ref != tls {
				t.Errorf("Allow = %v, want %s", err, want)
			}
		})
	}
}

// TestAnAllowanceCountsThoughSomethingFailed: one authorizer that says yes is enough, as for the request itself.
func TestAnAllowanceCountsThoughSomethingFailed(t *testing.T) {
	t.Parallel()
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "a role is missing"}
	if err := allowFrom(t, reviewer(status, nil), identity.OnBehalf(pod()), tls); err != nil {
		t.Errorf("Allow = %v, want nil", err)
	}
}
