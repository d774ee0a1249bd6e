package volume

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// digestKey is a random key of this run of the driver. The digest of a short Secret would let a reader
// of the status guess the Secret. Sealed with the key, digests can only be compared within one run.
type digestKey [sha256.Size]byte

func newDigestKey() (k digestKey) {
	_, _ = rand.Read(k[:]) // It never returns an error.
	return k
}

// seal returns the sealed digest; empty for none.
func (k digestKey) seal(digest string) string {
	if digest == "" {
		return ""
	}
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(digest))
	const enough = 16
	return hex.EncodeToString(h.Sum(nil)[:enough])
}
