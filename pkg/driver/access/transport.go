package access

import (
	"net/http"
)

// bearer sends each request with the newest token of one identity, over connections that all identities share.
type bearer struct {
	vault    *Vault
	identity Identity
	base     http.RoundTripper
}

// RoundTrip is [http.RoundTripper]. A token that the API server does not take, because its pod is gone, is passed over for
// the next one, with the same body. When all were refused, RoundTrip returns the API server's answer or, if all look expired, an
// error that says so.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // As transports have to.
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
		if !b.vault.passOver(b.identity, t) {
			return response, nil
		}
		if err := response.Body.Close(); err != nil {
			return nil, err
		}
	}
}

// withToken returns the request with a token, and with a body of its own.
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
