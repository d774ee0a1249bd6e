// Package access holds all rules about access to sources, in the order in which they apply.
//
// 1. The credentials that read a source ([identity.Readers], [Authority.Client]): the driver's own,
// or the token of the pod's service account. An [identity.Identity] names them. The driver can also
// read for a pod with its own credentials; before each such request it asks by an access review
// whether the pod may get the object, or list and watch the objects ([Authority.Allow]).
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
// 4. The remedy ([identity.Grant]): a Role and a RoleBinding for the error message.
//
// It does not know when sources are read, or their content.
package access

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
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
	// Readers choose the identity for each source.
	identity.Readers
}

// Authority chooses the identity for each source, and makes the clients of identities.
type Authority struct {
	identity.Readers

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
	return &Authority{Readers: cfg.Readers, cfg: cfg, pods: pods}, nil
}

// Client returns a client with the credentials of the identity. The client of a pod's service
// account uses the newest token for each request, and fails without a token.
func (a *Authority) Client(id identity.Identity) (rest.Interface, error) {
	if id == identity.Driver() || id.ByDriver {
		return a.cfg.Driver, nil
	}
	return a.clientOfPods(id, corev1.SchemeGroupVersion)
}

// clientOfPods returns a client of one group with the token of a pod's service account.
func (a *Authority) clientOfPods(id identity.Identity, group schema.GroupVersion) (rest.Interface, error) {
	client, err := a.cfg.Types.Client(a.cfg.Server, &http.Client{
		Transport: &bearer{vault: a.cfg.Vault, identity: id, base: a.pods},
	}, group)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", id, err)
	}
	return client, nil
}
