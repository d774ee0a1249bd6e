package access_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

var tomorrow = time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// jwt returns an unsigned token with the claims.
func jwt(claims string) string {
	return encode(`{"alg":"RS256","kid":"a-key"}`) + "." + encode(claims) + "." + encode("hunter2 is the signature")
}

// claimsOf returns the claims of a kubelet's token for the pod.
func claimsOf(p api.Pod) string {
	return fmt.Sprintf(`{"aud":["https://kubernetes.default.svc"],"exp":4922912645,"iat":4922909045,"jti":"an-id",`+
		`"iss":"https://kubernetes.default.svc","kubernetes.io":{"namespace":%q,"node":{"name":"node-1","uid":"node-uid"},`+
		`"pod":{"name":%q,"uid":%q},"serviceaccount":{"name":%q,"uid":"account-uid"}},"nbf":4922909045,"sub":"system:serviceaccount:%s:%s"}`,
		p.Namespace, p.Name, p.UID, p.ServiceAccount, p.Namespace, p.ServiceAccount)
}

// textOf returns the kubelet's text that holds the token for the API server.
func textOf(token string) string {
	return fmt.Sprintf(`{"":{"token":%q,"expirationTimestamp":"2126-01-02T03:04:05Z"},"vault":{"token":"another audience's"}}`, token)
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	ours := jwt(claimsOf(pod()))
	tests := map[string]struct {
		text string
		want access.Token
	}{
		"nothing":                {},
		"one for the API server": {text: textOf(ours), want: access.NewToken(ours, tomorrow)},
		"without a name of the pod, which others may have had": {
			text: textOf(jwt(strings.Replace(claimsOf(pod()), `"name":"web-0",`, "", 1))),
			want: access.NewToken(jwt(strings.Replace(claimsOf(pod()), `"name":"web-0",`, "", 1)), tomorrow),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := access.ParseTokens(tt.text, pod())
			if got != tt.want || err != nil {
				t.Errorf("ParseTokens = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestTokensThatAreRefused has texts that do not come from a kubelet for this pod. No error shows
// a piece of them.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	const (
		noObject   = "the kubelet's tokens are not a JSON object by audience"
		noAudience = `the kubelet sent tokens, but none for the audience ""`
		noJWT      = "the token is not a JSON Web Token"
		unreadable = "the token's claims cannot be read"
		notBound   = "the token is not bound to pod default/web-0 with service account runner and UID uid"
	)
	another := func(change func(*api.Pod)) string {
		p := pod()
		change(&p)
		return textOf(jwt(claimsOf(p)))
	}
	ours := jwt(claimsOf(pod()))
	header, _, _ := strings.Cut(ours, ".")
	tests := map[string]struct{ text, want string }{
		"half of a text":              {textOf(ours)[:len(textOf(ours))/2], noObject},
		"another shape":               {`{"": "hunter2-and-so-on"}`, noObject},
		"a number":                    {`{"": {"token": 1234567890123}}`, noObject},
		"no time":                     {`{"": {"token": "hunter2-and-so-on", "expirationTimestamp": "soon, very soon"}}`, noObject},
		"none for the API server":     {`{"vault": {"token": "hunter2-and-so-on"}}`, noAudience},
		"an empty one":                {`{"": {"token": ""}}`, noAudience},
		"null":                        {`null`, noAudience},
		"of another UID":              {another(func(p *api.Pod) { p.UID = "stranger" }), notBound},
		"of another case of the UID":  {another(func(p *api.Pod) { p.UID = "UID" }), notBound},
		"of another namespace":        {another(func(p *api.Pod) { p.Namespace = "kube-system" }), notBound},
		"of another account":          {another(func(p *api.Pod) { p.ServiceAccount = "administrator" }), notBound},
		"of no UID":                   {another(func(p *api.Pod) { p.UID = "" }), notBound},
		"bound to no pod":             {textOf(jwt(strings.Replace(claimsOf(pod()), `"pod":`, `"secret":`, 1))), notBound},
		"with the claims elsewhere":   {textOf(jwt(`{"namespace":"default","pod":{"uid":"uid"},"serviceaccount":{"name":"runner"}}`)), notBound},
		"without claims":              {textOf(jwt(`{}`)), notBound},
		"claims that are null":        {textOf(jwt(`null`)), notBound},
		"not a JWT":                   {textOf("hunter2-is-the-whole-token"), noJWT},
		"of two parts":                {textOf(ours[:strings.LastIndex(ours, ".")]), noJWT},
		"of four parts":               {textOf(ours + ".hunter2"), noJWT},
		"encrypted, of five parts":    {textOf(ours + ".hunter2.hunter2"), noJWT},
		"claims that are not base64":  {textOf(header + ".hunter2!hunter2." + header), unreadable},
		"claims with padding":         {textOf(header + "." + base64.URLEncoding.EncodeToString([]byte(`{"a":"hunter2"}  `)) + "." + header), unreadable},
		"claims that are not JSON":    {textOf(jwt("hunter2-is-no-JSON")), unreadable},
		"claims that are half a JSON": {textOf(jwt(claimsOf(pod())[:100])), unreadable},
		"claims of another shape":     {textOf(jwt(`{"kubernetes.io":{"namespace":["hunter2-and-so-on"]}}`)), unreadable},
		"claims that are a list":      {textOf(jwt(`["hunter2-and-so-on"]`)), unreadable},
		"no claims at all":            {textOf(header + ".." + header), unreadable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := access.ParseTokens(tt.text, pod())
			if !got.IsZero() || err == nil || err.Error() != tt.want {
				t.Fatalf("ParseTokens = %v, %v, want %s", got, err, tt.want)
			}
			const piece = 8
			for i := range max(0, len(tt.text)-piece+1) {
				if strings.Contains(err.Error(), tt.text[i:i+piece]) {
					t.Errorf("the error shows %q of the text: %v", tt.text[i:i+piece], err)
				}
			}
		})
	}
}

// TestATokenOfNobodyIsNotThatOfAnUnnamedPod: a token without claims does not belong to a pod
// without a name.
func TestATokenOfNobodyIsNotThatOfAnUnnamedPod(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]api.Pod{
		"nothing is known of the pod": {},
		"its UID is not known":        {Namespace: "default", Name: "web-0", ServiceAccount: "runner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, claims := range []string{claimsOf(p), `{}`} {
				if got, err := access.ParseTokens(textOf(jwt(claims)), p); err == nil || !got.IsZero() {
					t.Errorf("ParseTokens = %v, %v, want an error", got, err)
				}
			}
		})
	}
}

// TestATokenIsNeverShown has every way by which a token could reach a log line or an error. This
// is fault 28.
func TestATokenIsNeverShown(t *testing.T) {
	t.Parallel()
	token := access.NewToken("hunter2", tomorrow)
	for _, v := range []any{token, &token, []access.Token{token}, struct{ T access.Token }{token}, map[string]access.Token{"a": token}} {
		text, err := json.Marshal(v)
		expect.NoError(t, err)
		shown := []string{string(text)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		for _, s := range append(shown, fmt.Sprint(token.MarshalLog())) {
			for _, bad := range []string{"hunter2", "68756e74657232", "104 117 110"} {
				if strings.Contains(s, bad) {
					t.Errorf("%T shows the token: %s", v, s)
				}
			}
		}
	}
}
