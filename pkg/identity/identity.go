// Package identity decides whose credentials read a source, and hands out clients that carry them.
//
// It does not know what is read, how often, or what becomes of it.
package identity

import (
	"fmt"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Identity names whose credentials read a source. It is comparable: readers with the same identity share a watch. The
// zero value is the driver's own.
type Identity struct {
	// Namespace and ServiceAccount name a pod's service account; both are empty for the driver.
	Namespace, ServiceAccount string
}

// Driver is the driver's own identity.
func Driver() Identity { return Identity{} }

// String returns «driver» or «serviceaccount namespace/name».
func (i Identity) String() string {
	if i == Driver() {
		return "driver"
	}
	return "serviceaccount " + i.Namespace + "/" + i.ServiceAccount
}

// DeniedError is returned by [Authority.Choose] when nobody's credentials may read the source for the pod.
type DeniedError struct {
	Pod    api.Pod
	Ref    api.Ref
	Reason string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("pod %s may not read %s: %s", e.Pod, e.Ref, e.Reason)
}

// Authority chooses the identity for each source. The driver's own credentials serve the pod's namespace; a source in
// another namespace is refused, because no rule yet asks its owner for consent.
type Authority struct {
	driver corev1client.CoreV1Interface
}

// New returns an authority whose driver identity reads through the client.
func New(driver corev1client.CoreV1Interface) *Authority {
	return &Authority{driver: driver}
}

// Choose returns whose credentials read ref for the pod, or a *[DeniedError].
func (a *Authority) Choose(pod api.Pod, ref api.Ref) (Identity, error) {
	if ref.Namespace != pod.Namespace {
		return Identity{}, &DeniedError{
			Pod: pod, Ref: ref,
			Reason: fmt.Sprintf("sources outside the pod's namespace %q are not served by this version; "+
				"remove the namespace or copy the object", pod.Namespace),
		}
	}
	return Driver(), nil
}

// Client returns a client with the credentials of the identity.
func (a *Authority) Client(id Identity) (corev1client.CoreV1Interface, error) {
	if id != Driver() {
		return nil, fmt.Errorf("no credentials are held for %s", id)
	}
	return a.driver, nil
}
