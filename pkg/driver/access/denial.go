package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

const (
	// resourceOfOwnReviews is where an account asks what it may do itself, which by default all accounts are allowed to.
	resourceOfOwnReviews = "selfsubjectaccessreviews"
	// pathOfReadiness is open to everybody by default. A server is ready once it has read all roles and bindings.
	pathOfReadiness = "/readyz"
)

// Denies reports whether the API server is sure that the identity may not get ref, after it was denied to read. That proves
// little: a server that starts denies everything until it has read the roles, and a proxy before it may answer in its place.
// So the server must not say that it is not ready, and an access review must come to the same answer. An account that may ask
// for no review is denied by a server that says that it is ready. An error means that it could not be found out.
func (a *Authority) Denies(ctx context.Context, id Identity, ref api.Ref) (bool, error) {
	isReady, err := a.isReady(ctx, id)
	if err != nil {
		return false, err
	}
	if id.ByDriver {
		return isDenial(a.Allow(ctx, id, ref))
	}
	status, err := a.reviewOwn(ctx, id, ref)
	if isReady && apierrors.IsForbidden(err) {
		return true, nil
	}
	return isDenial(verdict(id, ref, status, err))
}

// isDenial tells a denial from an error by which nothing is known.
func isDenial(err error) (bool, error) {
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, err
}

// isReady asks over the same connections as the identity reads, so that the same server answers. It is an error if the
// server is not ready; false stands for one that does not show it to everybody.
func (a *Authority) isReady(ctx context.Context, id Identity) (bool, error) {
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

// reviewOwn has the service account ask whether it may get ref.
func (a *Authority) reviewOwn(ctx context.Context, id Identity, ref api.Ref) (authorizationv1.SubjectAccessReviewStatus, error) {
	client, err := a.clientOfPods(id, authorizationv1.SchemeGroupVersion)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: reading(ref)},
	}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err = client.Post().Resource(resourceOfOwnReviews).Body(review).Do(ctx).Into(answer)
	return answer.Status, err
}
