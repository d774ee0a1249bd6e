package copies_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// TestDigestOfASecret changes with its type too, and is not that of a ConfigMap with the same bytes.
func TestDigestOfASecret(t *testing.T) {
	t.Parallel()
	changed := func(change func(*corev1.Secret)) copies.Digest {
		s := secret()
		change(s)
		return copies.DigestOf(s)
	}
	same := map[string][]byte{"a": []byte("1")}
	seen := map[copies.Digest]string{}
	for name, d := range map[string]copies.Digest{
		"a Secret":                  copies.DigestOf(secret()),
		"its type":                  changed(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }),
		"its value":                 changed(func(s *corev1.Secret) { s.Data["tls.key"] = []byte("hunter3") }),
		"the type takes a byte":     changed(func(s *corev1.Secret) { s.Type += "\x00" }),
		"nothing, and of no type":   changed(func(s *corev1.Secret) { s.Type, s.Data = "", nil }),
		"nothing, and of this type": changed(func(s *corev1.Secret) { s.Data = nil }),
		"a Secret with binary data": copies.DigestOf(&corev1.Secret{Data: same}),
		"a ConfigMap with it":       copies.DigestOf(&corev1.ConfigMap{BinaryData: same}),
	} {
		if other, found := seen[d]; found {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
}

func TestDigestIsOfTheContentAlone(t *testing.T) {
	t.Parallel()
	want := copies.DigestOf(configMap())
	for name, change := range map[string]func(*corev1.ConfigMap){
		"name and namespace": func(c *corev1.ConfigMap) { c.Name, c.Namespace = "bar", "other" },
		"all metadata":       func(c *corev1.ConfigMap) { c.ObjectMeta = bare("bar") },
		"immutable":          func(c *corev1.ConfigMap) { c.Immutable = new(true) },
		"kind of the object": func(c *corev1.ConfigMap) { c.Kind, c.APIVersion = "ConfigMap", "v1" },
	} {
		changed := configMap()
		change(changed)
		if got := copies.DigestOf(changed); got != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	secretWant := copies.DigestOf(secret())
	withStrings := secret()
	withStrings.StringData = map[string]string{"a": "b"}
	if got := copies.DigestOf(withStrings); got != secretWant {
		t.Error("stringData changes the digest")
	}
}

func TestWhatTheAPITakesForOneHasOneDigest(t *testing.T) {
	t.Parallel()
	zero := copies.DigestOf(&corev1.Secret{Data: map[string][]byte{"a": {}}})
	for name, pair := range map[string][2]copies.Digest{
		"no data and empty data": {
			copies.DigestOf(&corev1.ConfigMap{}), copies.DigestOf(&corev1.ConfigMap{Data: map[string]string{}, BinaryData: map[string][]byte{}}),
		},
		"a value of null and an empty one": {copies.DigestOf(&corev1.Secret{Data: map[string][]byte{"a": nil}}), zero},
		"no type and Opaque":               {copies.DigestOf(&corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": {}}}), zero},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s have different digests", name)
		}
	}
}

// TestEachContentHasItsDigest makes every ConfigMap of few keys and values that could be taken for one another where
// they are written one behind the other.
func TestEachContentHasItsDigest(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "aa", "\x00", "a\x00", "\x00\x00\x00\x00\x00\x00\x00\x01"}
	seen := map[copies.Digest]corev1.ConfigMap{copies.DigestOf(&corev1.ConfigMap{}): {}}
	count := 0
	for _, k1 := range texts {
		for _, v1 := range texts {
			for _, k2 := range texts {
				for _, v2 := range texts {
					for _, c := range []corev1.ConfigMap{
						{Data: map[string]string{k1: v1, k2: v2}},
						{Data: map[string]string{k1: v1}, BinaryData: map[string][]byte{k2: []byte(v2)}},
						{BinaryData: map[string][]byte{k1: []byte(v1), k2: []byte(v2)}},
					} {
						d := copies.DigestOf(&c)
						if other, found := seen[d]; found && !equal(c, other) {
							t.Fatalf("%q %q has the digest of %q %q", c.Data, c.BinaryData, other.Data, other.BinaryData)
						}
						seen[d] = c
						count++
					}
				}
			}
		}
	}
	if len(seen) < 2000 {
		t.Errorf("%d contents have %d digests, want more than 2000", count, len(seen))
	}
}

func equal(a, b corev1.ConfigMap) bool {
	return maps.Equal(a.Data, b.Data) &&
		maps.EqualFunc(a.BinaryData, b.BinaryData, func(a, b []byte) bool { return string(a) == string(b) })
}
