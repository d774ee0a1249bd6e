package access_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// TestIsDriverDenied: a denial is the driver's if the driver asked for itself, or after the API server has allowed the pod what it
// asks for.
func TestIsDriverDenied(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	other := errors.New("unreachable")
	driver, pod := identity.Driver(), identity.Of(api.Pod{Namespace: "shop", Name: "web", ServiceAccount: "web"})
	onBehalf := identity.OnBehalf(api.Pod{Namespace: "shop", Name: "web", ServiceAccount: "web"})
	for name, tt := range map[string]struct {
		id   identity.Identity
		err  error
		want bool
	}{
		"the driver's request":                        {driver, forbidden, true},
		"the driver's request, another error":         {driver, other, false},
		"the pod's request":                           {pod, forbidden, false},
		"the pod's request, another error":            {pod, other, false},
		"for a pod that is allowed":                   {onBehalf, access.OfDriver(onBehalf, forbidden), true},
		"a pod's request is no request of the driver": {pod, access.OfDriver(pod, forbidden), false},
		"the review":                                  {onBehalf, &access.ReviewError{Cause: forbidden}, true},
		"the review, another error":                   {onBehalf, &access.ReviewError{Cause: other}, false},
	} {
		if got := access.IsDriverDenied(tt.id, tt.err); got != tt.want {
			t.Errorf("%s: IsDriverDenied = %t, want %t", name, got, tt.want)
		}
	}
}
