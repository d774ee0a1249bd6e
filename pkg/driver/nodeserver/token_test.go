package nodeserver_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// jwt returns a token with the pod's name. The signature, which only the API server could check, is anything.
func jwt(pod api.Pod, signature string) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"kubernetes.io": {"namespace": %q, "serviceaccount": {"name": %q, "uid": "1"}, "pod": {"name": %q, "uid": %q}}}`,
		pod.Namespace, pod.ServiceAccount, pod.Name, pod.UID)
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + signature
}

// tokens is what a kubelet sends of a token for the API server.
func tokens(value string) string {
	return `{"": {"token": "` + value + `", "expirationTimestamp": "2026-01-02T03:04:05Z"}}`
}

// forgedTokens are texts that are not what a kubelet sends for the pod of publishRequest. Package access has a test of all kinds.
func forgedTokens() map[string]string {
	of := func(change func(*api.Pod)) string {
		other := pod
		change(&other)
		return tokens(jwt(other, "forged-t0ken"))
	}
	return map[string]string{
		"no JSON":                     `{"": {"token": "t0ken`,
		"no JSON Web Token":           tokens("t0ken"),
		"another pod's":               of(func(p *api.Pod) { p.UID = "99999999-2222-3333-4444-555555555555" }),
		"another service account's":   of(func(p *api.Pod) { p.ServiceAccount = "admin" }),
		"another namespace's account": of(func(p *api.Pod) { p.Namespace = "kube-system" }),
	}
}

// checkTokens publishes with these texts of tokens, either of which may be empty for none, and checks what reaches the volumes: the
// zero token stands for none. Nothing of a token is logged.
func checkTokens(t *testing.T, secrets, context string, want access.Token) {
	t.Helper()
	b := newBench(t, nil)
	request := publishRequest()
	request.Secrets = nil
	if secrets != "" {
		request.Secrets = map[string]string{tokensKey: secrets}
	}
	delete(request.GetVolumeContext(), tokensKey)
	if context != "" {
		maps.Copy(request.GetVolumeContext(), map[string]string{tokensKey: context})
	}
	b.publish(request)
	if got := b.volumes.tokens; len(got) != 1 || got[0] != want {
		t.Errorf("tokens = %v, want only %v, of the right value", got, want)
	}
	wantSame(t, "record", wantRecord(), b.volumes.published[0])
	checkNoToken(t, b.log.String())
}

// TestTokensOfAPublish has a token in each of the two places where a cluster may put it.
func TestTokensOfAPublish(t *testing.T) {
	t.Parallel()
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, second := jwt(pod, "first-t0ken"), jwt(pod, "second-t0ken")
	tests := map[string]struct{ secrets, context, want string }{
		"none":              {},
		"among the secrets": {secrets: tokens(first), want: first},
		"in the context, as older clusters send it": {context: tokens(first), want: first},
		"in both: the secrets are the kubelet's":    {secrets: tokens(first), context: tokens(second), want: first},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := access.NewToken(tt.want, expires)
			if tt.want == "" {
				want = access.Token{}
			}
			checkTokens(t, tt.secrets, tt.context, want)
		})
	}
}

// TestForgedTokensAreNotUsed: a user who may write a Secret that the pod's volume refers to, or the volume's attributes, could
// put one there. It is no reason to refuse, because the volume may not need one or be live, and it does not hide the one
// that the kubelet has put into the other place.
func TestForgedTokensAreNotUsed(t *testing.T) {
	t.Parallel()
	genuine := jwt(pod, "genuine-t0ken")
	want := access.NewToken(genuine, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for name, forged := range forgedTokens() {
		tests := map[string]struct {
			secrets, context string
			want             access.Token
		}{
			"among the secrets": {secrets: forged},
			"in the context":    {context: forged},
			"in both":           {secrets: forged, context: forged},
			"among the secrets, the kubelet's elsewhere": {secrets: forged, context: tokens(genuine), want: want},
			"in the context, the kubelet's elsewhere":    {secrets: tokens(genuine), context: forged, want: want},
		}
		for where, tt := range tests {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				checkTokens(t, tt.secrets, tt.context, tt.want)
			})
		}
	}
}

// TestATokenThatIsNotUsedIsLogged, by the volume that it came with.
func TestATokenThatIsNotUsedIsLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	request := publishRequest()
	request.Secrets = map[string]string{tokensKey: forgedTokens()["another pod's"]}
	delete(request.GetVolumeContext(), tokensKey)
	b.publish(request)
	b.checkLogged("A token cannot be used", volumeID, "not bound to pod default/web-0")
}
