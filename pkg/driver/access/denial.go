package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

const (
	// resourceOfOwnReviews is for questions of an account about itself. By default all accounts
	// may ask.
	resourceOfOwnReviews = "selfsubjectaccessreviews"
	// pathOfReadiness is open to everybody by default. A server is ready when it has read all
	// roles and bindings.
	pathOfReadiness = "/readyz"
)

// Denies reports whether the API server is sure that the identity may not get ref, after it
// denied a read. The server must not report that it is not ready, and an access review must have
// the same result. If the account may not ask for a review, the denial of a server that reports
// readiness is enough. An error means that the question is open.
func (a *Authority) Denies(ctx context.Context, id identity.Identity, ref api.Ref) (bool, error) {
	isReady, err := a.isReady(ctx, id)
	if err != nil {
		return false, err
	}
	if id.ByDriver {
		return isDenial(a.Allow(ctx, id, ref))
	}
	for _, verb := range verbsFor(ref) {
		status, err := a.reviewOwn(ctx, id, verb, ref)
		if isReady && apierrors.IsForbidden(err) {
			return true, nil
		}
		if err := verdict(id, verb, ref, status, err); err != nil {
			return isDenial(err)
		}
	}
	return false, nil
}

// isDenial distinguishes a denial from other errors, which leave the question open.
func isDenial(err error) (bool, error) {
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, err
}

// isReady asks through the connections of the identity, so that the same server answers. It
// returns an error if the server is not ready, and false if the server does not answer this
// question to everybody.
func (a *Authority) isReady(ctx context.Context, id identity.Identity) (bool, error) {
	client, err := a.Client(id)
	if err != nil {
		return false, err
	}
	err = client.Get().AbsPath(pathOfReadiness).Do(ctx).Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the API server is ready: %w", err)
	}
	return true, nil
}

// reviewOwn asks with the service account's token whether it may read ref with the verb.
func (a *Authority) reviewOwn(
	ctx context.Context, id identity.Identity, verb string, ref api.Ref,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	client, err := a.clientOfPods(id, authorizationv1.SchemeGroupVersion)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: reading(verb, ref)},
	}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err = client.Post().Resource(resourceOfOwnReviews).Body(review).Do(ctx).Into(answer)
	return answer.Status, err
}
