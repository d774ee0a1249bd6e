// Package identity decides whose credentials read a source, and hands out clients that carry them: the driver's own, or
// the token of a pod's service account.
//
// It does not know what is read, how often, or what becomes of it.
package identity

import (
	"fmt"
	"net/http"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

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

// Of is the identity of the pod's service account.
func Of(pod api.Pod) Identity {
	return Identity{Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount}
}

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

// Reader is who reads the sources of a kind in a pod's own namespace.
type Reader string

// The readers.
const (
	// ByDriver: as in Kubernetes' own volumes, whoever may create a pod may mount what is in its namespace.
	ByDriver Reader = "driver"
	// ByPod: the pod's service account needs to be allowed by RBAC.
	ByPod Reader = "pod"
)

// Config is what an authority needs. Every field is required.
type Config struct {
	// Driver reads with the driver's own credentials.
	Driver corev1client.CoreV1Interface
	// Server says how to reach the API server. Credentials in it are not used.
	Server *rest.Config
	Vault  *Vault
	// ConfigMaps and Secrets are who reads what is in the pod's namespace.
	ConfigMaps, Secrets Reader
}

// Authority chooses the identity for each source.
type Authority struct {
	cfg  Config
	pods http.RoundTripper // Sends no credentials of its own.
}

// New returns an authority.
func New(cfg Config) (*Authority, error) {
	cfg.Server = rest.AnonymousClientConfig(cfg.Server)
	pods, err := rest.TransportFor(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("make the connection for pods' tokens: %w", err)
	}
	return &Authority{cfg: cfg, pods: pods}, nil
}

// Choose returns whose credentials read ref for the pod, or a *[DeniedError]. A source in another namespace is read by
// the pod, so that its owner consents by RBAC.
func (a *Authority) Choose(pod api.Pod, ref api.Ref) (Identity, error) {
	switch {
	case ref.Namespace != pod.Namespace && a.cfg.Secrets == ByPod:
		return Of(pod), nil
	case ref.Namespace != pod.Namespace:
		return Identity{}, &DeniedError{
			Pod: pod, Ref: ref,
			Reason: fmt.Sprintf("sources outside the pod's namespace %q are served with --secret-identity=pod only; "+
				"remove the namespace or copy the object", pod.Namespace),
		}
	case a.reader(ref.Kind) == ByPod:
		return Of(pod), nil
	}
	return Driver(), nil
}

func (a *Authority) reader(kind api.Kind) Reader {
	if kind == api.Secret {
		return a.cfg.Secrets
	}
	return a.cfg.ConfigMaps
}

// Client returns a client with the credentials of the identity. One for a pod's service account takes the newest token
// for each request, and fails while there is none.
func (a *Authority) Client(id Identity) (corev1client.CoreV1Interface, error) {
	if id == Driver() {
		return a.cfg.Driver, nil
	}
	client, err := corev1client.NewForConfigAndClient(a.cfg.Server, &http.Client{
		Transport: &bearer{vault: a.cfg.Vault, identity: id, base: a.pods},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", id, err)
	}
	return client, nil
}
