package copies

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Object is what can be copied.
type Object interface {
	*corev1.ConfigMap | *corev1.Secret
}

// Digest stands for the content of an object: its kind, data and binary data, and the type of a
// Secret. It is comparable. The zero value is the digest of nothing.
//
// Anyone who can guess the content of a Secret can check the guess by its digest. So the digest is
// not shown to anyone who cannot read it. The ten digits in the name of a copy are seen by more.
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// String returns sha256: and 64 digits.
func (d Digest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// parseDigest reads what String returns.
func parseDigest(text string) (Digest, bool) {
	encoded, isDigest := strings.CutPrefix(text, digestPrefix)
	bytes, err := hex.DecodeString(encoded)
	if !isDigest || err != nil || len(bytes) != len(Digest{}) {
		return Digest{}, false
	}
	return Digest(bytes), true
}

// DigestOf returns the digest of an object as the API returns it. Metadata, and whether it is
// immutable, have no part in it. Neither has stringData, which the API never returns.
func DigestOf[O Object](object O) Digest {
	h := sha256.New()
	w := writer{bufio.NewWriter(h)}
	switch o := any(object).(type) {
	case *corev1.ConfigMap:
		w.text(string(api.ConfigMap))
		// The same bytes are another content in the other map: no environment variable is made of
		// binary data.
		writeMap(w, o.Data, w.text)
		writeMap(w, o.BinaryData, w.bytes)
	case *corev1.Secret:
		w.text(string(api.Secret))
		w.text(string(typeOf(o)))
		writeMap(w, o.Data, w.bytes)
	}
	_ = w.Flush() // A hash takes all that is written.
	return Digest(h.Sum(nil))
}

// typeOf is the type that the API server would give the Secret.
func typeOf(secret *corev1.Secret) corev1.SecretType {
	if secret.Type == "" {
		return corev1.SecretTypeOpaque
	}
	return secret.Type
}

// writeMap writes how many entries there are, and each in the order of keys.
func writeMap[V any](w writer, entries map[string]V, write func(V)) {
	w.length(len(entries))
	keys := slices.AppendSeq(make([]string, 0, len(entries)), maps.Keys(entries))
	slices.Sort(keys)
	for _, key := range keys {
		w.text(key)
		write(entries[key])
	}
}

// writer writes each thing behind its length, so that no two lists of things make the same bytes.
// Its buffer keeps long texts from being held a second time.
type writer struct{ *bufio.Writer }

func (w writer) text(s string) {
	w.length(len(s))
	_, _ = w.WriteString(s)
}

func (w writer) bytes(b []byte) {
	w.length(len(b))
	_, _ = w.Write(b)
}

func (w writer) length(n int) {
	_, _ = w.Write(binary.BigEndian.AppendUint64(w.AvailableBuffer(), uint64(n))) //nolint:gosec // A length.
}
