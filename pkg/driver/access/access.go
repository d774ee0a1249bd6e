// Package access holds all rules about access to sources, in the order in which they apply.
//
// 1. The credentials that read a source ([Authority.Choose], [Authority.Client]): the driver's
// own, or the token of the pod's service account. An [Identity] names them. The driver can also
// read for a pod with its own credentials; before each such request it asks by an access review
// whether the pod may get the object ([Authority.Allow]).
//
// 2. The meaning of a denial. A denial proves little: an API server that starts denies everything
// until it has read the roles, and a proxy may answer in its place. So denials of a pod count only
// after they have been the only answers for the recheck interval, and a second question has
// confirmed them ([Denials], [Authority.Denies]). An open watch does not notice lost access, so a
// pod's watches are reopened within the recheck interval. Any other answer ends the doubt. A denial
// that counts does so until the API server allows a request: an outage grants nothing. A denial of
// the driver itself never counts.
//
// 3. The effect on the files ([Evidence.EffectOn]):
//
//	evidence                                    | new volume | live volume
//	read, and the latest request succeeded      | Serve      | Serve
//	read, and denied or not readable since      | Refuse     | Serve
//	never read, and denied, which may not count | Refuse     | Await
//	never read, for another reason              | Refuse     | Refuse
//	denials count                               | Refuse     | Remove if onDelete is Remove
//
// If onDelete is Keep, denials that count change nothing for a live volume: it is served what was
// read, or refused as long as nothing was.
//
// All pods of a namespace may have what the driver reads there for itself. So without an answer a
// new volume is served what was read earlier, and a denial never lets a live volume wait.
//
// 4. The remedy ([Grant]): a Role and a RoleBinding for the error message.
//
// It does not know when sources are read, or their content.
package access

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// Identity names the credentials that read a source. It is comparable: readers with the same
// identity share a watch. The zero value is the driver's own.
type Identity struct {
	// Namespace and ServiceAccount name a pod's service account; both are empty for the driver.
	Namespace, ServiceAccount string
	// ByDriver means that the driver's own credentials read what the service account may get: see
	// [Authority.Allow]. Otherwise the account's token reads.
	ByDriver bool
}

// Driver is the driver's own identity.
func Driver() Identity { return Identity{} }

// Of is the identity of the pod's service account.
func Of(pod api.Pod) Identity {
	return Identity{Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount}
}

// OnBehalf is the driver's own identity, used only for what the pod's service account may get.
func OnBehalf(pod api.Pod) Identity {
	return Identity{Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount, ByDriver: true}
}

// String returns «driver», «serviceaccount namespace/name», or «driver for serviceaccount
// namespace/name».
func (i Identity) String() string {
	account := "serviceaccount " + i.Namespace + "/" + i.ServiceAccount
	switch {
	case i == Driver():
		return "driver"
	case i.ByDriver:
		return "driver for " + account
	}
	return account
}

// Reader is the reader of the sources of a kind in a pod's own namespace.
type Reader string

// The readers.
const (
	// ByDriver: as with Kubernetes' own volumes, a user who may create a pod may mount everything
	// in its namespace.
	ByDriver Reader = "driver"
	// ByPod: the pod's service account needs to be allowed by RBAC.
	ByPod Reader = "pod"
)

// Config is what an authority needs. Every field is required.
type Config struct {
	// Types are those of the clients.
	Types *kubeclient.Types
	// Driver reads with the driver's own credentials. It is a client of the core group.
	Driver rest.Interface
	// Reviews asks with the driver's own credentials what service accounts may do. It is a client
	// of authorization.k8s.io.
	Reviews rest.Interface
	// Server is the address of the API server. Its credentials are not used; its WrapTransport
	// is, and must add none.
	Server *rest.Config
	Vault  *Vault
	// ConfigMaps and Secrets are the readers in the pod's namespace.
	ConfigMaps, Secrets Reader
}

// Authority chooses the identity for each source.
type Authority struct {
	cfg  Config
	pods http.RoundTripper // Adds no credentials.
}

// New returns an authority.
func New(cfg Config) (*Authority, error) {
	wrap := cfg.Server.WrapTransport
	cfg.Server = rest.AnonymousClientConfig(cfg.Server)
	cfg.Server.WrapTransport = wrap
	pods, err := rest.TransportFor(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("make the connection for pods' tokens: %w", err)
	}
	return &Authority{cfg: cfg, pods: pods}, nil
}

// Choose returns the identity that reads ref for the pod. A source in the pod's namespace is read
// as configured for its kind. A source in another namespace needs the consent of its owner, by
// RBAC for the pod's service account: the account reads it, or the driver does if the driver
// reads everything.
func (a *Authority) Choose(pod api.Pod, ref api.Ref) Identity {
	isForeign := ref.Namespace != pod.Namespace
	switch {
	case a.reader(ref.Kind) == ByPod, isForeign && a.cfg.Secrets == ByPod:
		return Of(pod)
	case isForeign:
		return OnBehalf(pod)
	}
	return Driver()
}

func (a *Authority) reader(kind api.Kind) Reader {
	if kind == api.Secret {
		return a.cfg.Secrets
	}
	return a.cfg.ConfigMaps
}

// Client returns a client with the credentials of the identity. The client of a pod's service
// account uses the newest token for each request, and fails without a token.
func (a *Authority) Client(id Identity) (rest.Interface, error) {
	if id == Driver() || id.ByDriver {
		return a.cfg.Driver, nil
	}
	return a.clientOfPods(id, corev1.SchemeGroupVersion)
}

// clientOfPods returns a client of one group with the token of a pod's service account.
func (a *Authority) clientOfPods(id Identity, group schema.GroupVersion) (rest.Interface, error) {
	client, err := a.cfg.Types.Client(a.cfg.Server, &http.Client{
		Transport: &bearer{vault: a.cfg.Vault, identity: id, base: a.pods},
	}, group)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", id, err)
	}
	return client, nil
}
