package source

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// TestTheTenantIsThePodsNamespace, for each identity, and in each namespace of the object.
func TestTheTenantIsThePodsNamespace(t *testing.T) {
	t.Parallel()
	pod := api.Pod{Namespace: "team", ServiceAccount: "runner"}
	for name, key := range map[string]Key{
		"the driver":             {Identity: identity.Driver(), Ref: api.Ref{Kind: api.ConfigMap, Namespace: "team", Name: "web"}},
		"the pod":                {Identity: identity.Of(pod), Ref: api.Ref{Kind: api.Secret, Namespace: "shared", Name: "web"}},
		"the driver in its name": {Identity: identity.OnBehalf(pod), Ref: api.Ref{Kind: api.Secret, Namespace: "shared", Name: "web"}},
	} {
		if got := (&reader{key: key}).Tenant(); got != "team" {
			t.Errorf("%s reads %s: tenant %q, want team", name, key.Ref, got)
		}
	}
}
