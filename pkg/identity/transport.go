package identity

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
// the next one. When all were refused, RoundTrip returns the API server's answer or, if all look expired, an error that says
// so. Requests that read have no body, so they can be sent again.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		t, err := b.vault.token(b.identity)
		if err != nil {
			return nil, err
		}
		next := r.Clone(r.Context())
		next.Header.Set("Authorization", "Bearer "+t.value)
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
