package access

import (
	"net/http"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// bearer sends each request with the newest token of one identity, over connections that all
// identities share.
type bearer struct {
	vault    *Vault
	identity identity.Identity
	base     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. If the API server refuses a token, because its pod is
// gone, the next token is tried with the same body. If all were refused, RoundTrip returns the
// API server's answer or, if all look expired, an error.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // Transports must close it.
	}
	for {
		t, err := b.vault.token(b.identity)
		if err != nil {
			return nil, err
		}
		next, err := withToken(r, t)
		if err != nil {
			return nil, err
		}
		response, err := b.base.RoundTrip(next)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusUnauthorized {
			b.vault.accept(b.identity, t)
			return response, nil
		}
		if !b.vault.refuse(b.identity, t) {
			return response, nil
		}
		if err := response.Body.Close(); err != nil {
			return nil, err
		}
	}
}

// withToken returns a copy of the request with a token and a new body.
func withToken(r *http.Request, t Token) (*http.Request, error) {
	next := r.Clone(r.Context())
	next.Header.Set("Authorization", "Bearer "+t.value)
	if r.GetBody == nil {
		return next, nil
	}
	body, err := r.GetBody()
	next.Body = body
	return next, err
}
