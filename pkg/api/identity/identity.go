// Package identity decides whose credentials read a source, and writes the Role by which the owner
// of a source lets an identity read it.
//
// It is pure: it does not know the API server, tokens or clients.
package identity

import (
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Identity names the credentials that read a source. It is comparable: readers with the same
// identity share a watch. The zero value is the driver's own.
type Identity struct {
	// Namespace and ServiceAccount name a pod's service account; both are empty for the driver.
	Namespace, ServiceAccount string
	// ByDriver means that the driver's own credentials read what the service account may get: see
	// pkg/driver/access. Otherwise the account's token reads.
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

// Parse returns the identity that String returned the text for, and false for another text.
func Parse(text string) (id Identity, isKnown bool) {
	account, byDriver := strings.CutPrefix(text, "driver for ")
	named, isAccount := strings.CutPrefix(account, "serviceaccount ")
	namespace, name, isComplete := strings.Cut(named, "/")
	switch {
	case text == Driver().String():
		return Driver(), true
	case !isAccount || !isComplete || namespace == "" || name == "" || strings.ContainsAny(named, " \n") ||
		strings.Contains(name, "/"):
		return Identity{}, false
	}
	return Identity{Namespace: namespace, ServiceAccount: name, ByDriver: byDriver}, true
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

// Readers are the readers of the sources in a pod's own namespace.
type Readers struct {
	ConfigMaps, Secrets Reader
}

// Choose returns the identity that reads ref for the pod. A source in the pod's namespace is read
// as configured for its kind. A source in another namespace needs the consent of its owner, by
// RBAC for the pod's service account: the account reads it, or the driver does if the driver
// reads everything.
func (r Readers) Choose(pod api.Pod, ref api.Ref) Identity {
	isForeign := ref.Namespace != pod.Namespace
	switch {
	case r.of(ref.Kind) == ByPod, isForeign && r.Secrets == ByPod:
		return Of(pod)
	case isForeign:
		return OnBehalf(pod)
	}
	return Driver()
}

func (r Readers) of(kind api.Kind) Reader {
	if kind == api.Secret {
		return r.Secrets
	}
	return r.ConfigMaps
}
