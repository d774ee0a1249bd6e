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

// RoundTrip is [http.RoundTripper].
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := b.vault.token(b.identity)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.value)
	return b.base.RoundTrip(r)
}
