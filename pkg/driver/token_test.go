package driver_test

import (
	"maps"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// tokens is what a kubelet sends of a token for the API server.
func tokens(value string) string {
	return `{"": {"token": "` + value + `", "expirationTimestamp": "2026-01-02T03:04:05Z"}}`
}

func TestTokensOfAPublish(t *testing.T) {
	t.Parallel()
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		secrets, context map[string]string
		want             identity.Token
	}{
		"none": {},
		"among the secrets": {
			secrets: map[string]string{tokensKey: tokens("a")}, want: identity.NewToken("a", expires),
		},
		"in the context, as older clusters send it": {
			context: map[string]string{tokensKey: tokens("a")}, want: identity.NewToken("a", expires),
		},
		"in both: what is in the context is not the kubelet's then": {
			secrets: map[string]string{tokensKey: tokens("a")}, context: map[string]string{tokensKey: tokens("b")},
			want: identity.NewToken("a", expires),
		},
		"among the secrets beside a text in the context that is no JSON": {
			secrets: map[string]string{tokensKey: tokens("a")}, context: map[string]string{tokensKey: "{"},
			want: identity.NewToken("a", expires),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volumes := &fakeVolumes{}
			request := publishRequest()
			request.Secrets = tt.secrets
			delete(request.GetVolumeContext(), tokensKey)
			maps.Copy(request.GetVolumeContext(), tt.context)
			if _, err := csi.NewNodeClient(connect(t, volumes, noUsage)).NodePublishVolume(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if got := volumes.tokens; len(got) != 1 || got[0] != tt.want {
				t.Errorf("tokens = %v, want %v", got, tt.want)
			}
			if got := volumes.published[0].Attributes[tokensKey]; got != "" {
				t.Error("the record holds the tokens")
			}
		})
	}
}

// TestTokensThatCannotBeUsed are no reason to refuse: the volume may not need one, or be live.
func TestTokensThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no JSON": `{"": {"token": "hunter2`, "another audience": `{"vault": {"token": "hunter2"}}`, "a list": `["hunter2"]`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volumes := &fakeVolumes{}
			request := publishRequest()
			request.Secrets = map[string]string{tokensKey: text}
			if _, err := csi.NewNodeClient(connect(t, volumes, noUsage)).NodePublishVolume(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if got := volumes.tokens; len(got) != 1 || !got[0].IsZero() {
				t.Errorf("tokens = %v, want none", got)
			}
		})
	}
}
