package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// The user and groups by which the API server knows a service account.
const (
	accountPrefix      = "system:serviceaccount:"
	groupOfAccounts    = "system:serviceaccounts"
	groupOfEveryone    = "system:authenticated"
	verbOfReading      = "get"
	prefixOfNamespaced = groupOfAccounts + ":"
)

// resourceOfReviews is the resource of access reviews.
const resourceOfReviews = "subjectaccessreviews"

// ReviewError means that an access review has failed. It is never a denial, also if the driver
// itself is denied to ask.
type ReviewError struct {
	Identity identity.Identity
	Ref      api.Ref
	Cause    error // Not unwrapped: it may be a denial.
}

func (e *ReviewError) Error() string {
	return fmt.Sprintf("ask whether serviceaccount %s/%s may %s %s: %v", e.Identity.Namespace, e.Identity.ServiceAccount,
		strings.Join(verbsFor(e.Ref), " and "), e.Ref, e.Cause)
}

// Allow asks whether the identity may read ref, if the API server does not decide that with the
// request itself because the driver's credentials make it. A ref without a name stands for all
// objects of the kind in its namespace, or in all namespaces. A denial is a Forbidden error as of
// the API; any other error is a *[ReviewError].
func (a *Authority) Allow(ctx context.Context, id identity.Identity, ref api.Ref) error {
	if !id.ByDriver {
		return nil
	}
	for _, verb := range verbsFor(ref) {
		if err := a.allow(ctx, id, verb, ref); err != nil {
			return err
		}
	}
	return nil
}

func (a *Authority) allow(ctx context.Context, id identity.Identity, verb string, ref api.Ref) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               accountPrefix + id.Namespace + ":" + id.ServiceAccount,
		Groups:             []string{groupOfAccounts, prefixOfNamespaced + id.Namespace, groupOfEveryone},
		ResourceAttributes: reading(verb, ref),
	}}
	answer := &authorizationv1.SubjectAccessReview{}
	err := a.cfg.Reviews.Post().Resource(resourceOfReviews).Body(review).Do(ctx).Into(answer)
	return verdict(id, verb, ref, answer.Status, err)
}

// verbsFor returns the verbs that an identity needs, in the order in which they are asked about.
func verbsFor(ref api.Ref) []string {
	if ref.Name == "" {
		return []string{"list", "watch"}
	}
	return []string{verbOfReading}
}

// reading is the subject of a review.
func reading(verb string, ref api.Ref) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Namespace: ref.Namespace, Verb: verb, Version: "v1", Resource: ref.Kind.Resource() + "s", Name: ref.Name,
	}
}

// verdict returns the error of [Authority.Allow] for the answer to a review.
func verdict(
	id identity.Identity, verb string, ref api.Ref, status authorizationv1.SubjectAccessReviewStatus, err error,
) error {
	switch {
	case err != nil:
		return &ReviewError{Identity: id, Ref: ref, Cause: err}
	case status.Allowed:
		return nil
	case status.EvaluationError != "": // For the request itself this would be an internal error, not a denial.
		return &ReviewError{Identity: id, Ref: ref, Cause: errors.New(status.EvaluationError)}
	case ref.Name == "":
		return apierrors.NewForbidden(corev1.Resource(ref.Kind.Resource()+"s"), "",
			fmt.Errorf("serviceaccount %s/%s may not %s %s", id.Namespace, id.ServiceAccount, verb, ref))
	default:
		return apierrors.NewForbidden(corev1.Resource(ref.Kind.Resource()+"s"), ref.Name,
			fmt.Errorf("serviceaccount %s/%s may not get it", id.Namespace, id.ServiceAccount))
	}
}
