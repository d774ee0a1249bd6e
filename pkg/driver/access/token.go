package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TokensKey is where the kubelet puts the tokens that the CSIDriver object requests: among the
// secrets of a request or, in older clusters, in its volume context.
const TokensKey = api.KubeletPrefix + "serviceAccount.tokens"

// audience is that of tokens for the API server itself: the CSIDriver object names it by the
// empty string.
const audience = ""

// jwtParts are header, claims and signature.
const jwtParts = 3

// Token is a service-account token. No way of printing one shows it. The zero value is no token.
type Token struct {
	value   string
	expires time.Time
}

// NewToken returns a token that the API server accepts until it expires.
func NewToken(value string, expires time.Time) Token { return Token{value: value, expires: expires} }

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.value == "" }

// Expires returns when the API server will no longer accept the token.
func (t Token) Expires() time.Time { return t.expires }

// String hides the token.
func (t Token) String() string {
	if t.IsZero() {
		return "no token"
	}
	return "a token that expires at " + t.expires.UTC().Format(time.RFC3339)
}

// Format hides the token from every verb.
func (t Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, t.String()) }

// MarshalJSON hides the token, also inside other values.
func (t Token) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// MarshalLog hides the token from logs.
func (t Token) MarshalLog() any { return t.String() }

// ParseTokens returns the pod's token for the API server from the kubelet's text, a JSON object
// by audience. An empty text has none. A token with claims of another pod, or without claims,
// does not come from the kubelet: somebody who may write a pod's attributes or a Secret has put
// it there. Only the API server can check that a token is genuine. Errors show nothing of the
// text.
func ParseTokens(text string, pod api.Pod) (Token, error) {
	if text == "" {
		return Token{}, nil
	}
	var tokens map[string]struct {
		Token               string    `json:"token"`
		ExpirationTimestamp time.Time `json:"expirationTimestamp"`
	}
	if json.Unmarshal([]byte(text), &tokens) != nil { // The error could quote a part of a token.
		return Token{}, errors.New("the kubelet's tokens are not a JSON object by audience")
	}
	t, ok := tokens[audience]
	if !ok || t.Token == "" {
		return Token{}, errors.New(`the kubelet sent tokens, but none for the audience ""`)
	}
	if err := checkClaims(t.Token, pod); err != nil {
		return Token{}, err
	}
	return Token{value: t.Token, expires: t.ExpirationTimestamp}, nil
}

// claims are the claims of a service-account token.
type claims struct {
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// checkClaims returns an error unless the token's claims name the pod.
func checkClaims(token string, pod api.Pod) error {
	parts := strings.Split(token, ".")
	if len(parts) != jwtParts || strings.ContainsAny(token, "\r\n") { // Base64 skips these, and a header cannot have them.
		return errors.New("the token is not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var found claims
	if err != nil || json.Unmarshal(payload, &found) != nil {
		return errors.New("the token's claims cannot be read")
	}
	k := found.Kubernetes
	if k.Pod.UID == "" || k.Namespace != pod.Namespace || k.ServiceAccount.Name != pod.ServiceAccount ||
		k.Pod.UID != pod.UID {
		return fmt.Errorf("the token is not bound to pod %s with service account %s and UID %s", pod, pod.ServiceAccount,
			pod.UID)
	}
	return nil
}
