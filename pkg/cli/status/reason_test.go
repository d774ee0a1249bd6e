package status

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestReason: what differs from pod to pod and from namespace to namespace is not in the reasons of groups.
func TestReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ why, want string }{
		"none":              {"its node has not heard of it yet", "its node has not heard of it yet"},
		"a pod":             {"it waits for its volume; see kubectl describe pod/web-1", "it waits for its volume; see kubectl describe pod/NAME"},
		"of the API server": {`secrets "tls" not found`, `secrets NAME not found`},
		"another object":    {`configmap "gone" not found`, `configmap NAME not found`},
		"by its namespace":  {"secret shop/tls has not been read yet", "secret NAME has not been read yet"},
		"to type":           {"see kubectl liveconfig release status secret/tls", "see kubectl liveconfig release status secret/NAME"},
		"by its account":    {"service account web may not get secret tls; see kubectl liveconfig grant", "service account NAME may not get secret NAME; see kubectl liveconfig grant"},
		"no name":           {"no secret may be read by its service account", "no secret may be read by its service account"},
		"a longer name":     {"secret tls-old is another", "secret tls-old is another"},
		"a copy":            {"it is of another revision than the one with tls-59127bfff9", "it is of another revision than the one with COPY"},
		"denied": {
			`secret shop/tls cannot be read: secrets "tls" is forbidden: User "system:serviceaccount:shop:web" cannot get resource ` +
				`"secrets" in API group "" in the namespace "shop"; to allow it, apply:` + "\nkind: Role\n",
			`secret NAME cannot be read: secrets NAME is forbidden: User "system:serviceaccount:NAME" cannot get resource ` +
				`"secrets" in API group "" in the namespace NAME; kubectl liveconfig grant prints the Role`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sourceStatus{Kind: api.Secret, Namespace: "shop", Name: "tls", Version: "tls-59127bfff9"}
			if got := newGeneralizer().reason(&s, podStatus{Pod: "web-1", Has: "12", Why: test.why}); got != test.want {
				t.Errorf("reason is %q, want %q", got, test.want)
			}
		})
	}
}
