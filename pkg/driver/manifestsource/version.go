package manifestsource

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// versions gives objects a UID and a version by what they are, so that equal manifests are the same
// object in the same version, whenever and however often they are read. The versions of Secrets are
// keyed: they are shown, and nobody must be able to find out by one whether a guess of the content
// is right.
type versions struct{ key []byte }

func newVersions() versions {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // It never fails.
	return versions{key: key}
}

// stamp returns the content with its UID and version. Other data in an immutable object is another
// object, as it would be in the API server.
func (v versions) stamp(c api.Content) api.Content {
	c.ResourceVersion = v.of(c)
	of := []string{string(c.Ref.Kind), c.Ref.Namespace, c.Ref.Name}
	if c.Immutable {
		of = append(of, c.ResourceVersion)
	}
	text, _ := json.Marshal(of) // Strings always can be.
	h := sha256.Sum256(text)
	c.UID = fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
	return c
}

func (v versions) of(c api.Content) string {
	h := sha256.New()
	if c.Ref.Kind == api.Secret {
		h = hmac.New(sha256.New, v.key)
	}
	_ = json.NewEncoder(h).Encode(struct { // Maps are encoded in the order of their keys, and a hash takes everything.
		Immutable bool
		Data      map[string][]byte
	}{c.Immutable, c.Data})
	const length = 10 // Bytes; as readable as the versions of an API server.
	return hex.EncodeToString(h.Sum(nil)[:length])
}
