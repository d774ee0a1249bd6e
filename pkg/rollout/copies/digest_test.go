package copies_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

func TestDigestChangesWithAllContent(t *testing.T) {
	t.Parallel()
	configMaps := map[string]func(*corev1.ConfigMap){
		"nothing":                       func(*corev1.ConfigMap) {},
		"a value":                       func(c *corev1.ConfigMap) { c.Data["a"] = "3" },
		"a key":                         func(c *corev1.ConfigMap) { delete(c.Data, "a"); c.Data["A"] = "1" },
		"a key less":                    func(c *corev1.ConfigMap) { delete(c.Data, "b") },
		"an empty key more":             func(c *corev1.ConfigMap) { c.Data["d"] = "" },
		"values change places":          func(c *corev1.ConfigMap) { c.Data["a"], c.Data["b"] = "2", "1" },
		"a key moves to its value":      func(c *corev1.ConfigMap) { c.Data = map[string]string{"": "a1", "b": "2"} },
		"a value moves to its key":      func(c *corev1.ConfigMap) { c.Data = map[string]string{"a1": "", "b": "2"} },
		"an entry moves to another":     func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "1b2"} },
		"a byte of binary data":         func(c *corev1.ConfigMap) { c.BinaryData["c"][1] = 0xfe },
		"no binary data":                func(c *corev1.ConfigMap) { c.BinaryData = nil },
		"nothing left":                  func(c *corev1.ConfigMap) { c.Data, c.BinaryData = nil, nil },
		"a text becomes binary data":    func(c *corev1.ConfigMap) { delete(c.Data, "b"); c.BinaryData["b"] = []byte("2") },
		"binary data becomes a text":    func(c *corev1.ConfigMap) { c.BinaryData = nil; c.Data["c"] = "\x00\xff" },
		"bytes that look like a length": func(c *corev1.ConfigMap) { c.Data["a"] = "1\x00\x00\x00\x00\x00\x00\x00\x01b" },
		"all text becomes binary data": func(c *corev1.ConfigMap) {
			c.Data = nil
			c.BinaryData["a"], c.BinaryData["b"] = []byte("1"), []byte("2")
		},
		"all binary data becomes a text": func(c *corev1.ConfigMap) { c.BinaryData, c.Data["c"] = nil, "\x00" },
	}
	secrets := map[string]func(*corev1.Secret){
		"a Secret":                  func(*corev1.Secret) {},
		"its type":                  func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"its value":                 func(s *corev1.Secret) { s.Data["tls.key"] = []byte("hunter3") },
		"the type takes a byte":     func(s *corev1.Secret) { s.Type += "\x00" },
		"nothing, and of no type":   func(s *corev1.Secret) { s.Type, s.Data = "", nil },
		"nothing, and of this type": func(s *corev1.Secret) { s.Data = nil },
	}
	seen := map[copies.Digest]string{}
	check := func(name string, d copies.Digest) {
		if other, found := seen[d]; found {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	for _, name := range slices.Sorted(maps.Keys(configMaps)) {
		changed := configMap()
		configMaps[name](changed)
		check(name, copies.DigestOf(changed))
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		changed := secret()
		secrets[name](changed)
		check(name, copies.DigestOf(changed))
	}
	// A Secret and a ConfigMap of the same bytes.
	check("a Secret with binary data", copies.DigestOf(&corev1.Secret{Data: map[string][]byte{"a": []byte("1")}}))
	check("a ConfigMap with it", copies.DigestOf(&corev1.ConfigMap{BinaryData: map[string][]byte{"a": []byte("1")}}))
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
	none, empty := &corev1.ConfigMap{}, &corev1.ConfigMap{Data: map[string]string{}, BinaryData: map[string][]byte{}}
	if copies.DigestOf(none) != copies.DigestOf(empty) {
		t.Error("no data has another digest than empty data")
	}
	null, zero := &corev1.Secret{Data: map[string][]byte{"a": nil}}, &corev1.Secret{Data: map[string][]byte{"a": {}}}
	if copies.DigestOf(null) != copies.DigestOf(zero) {
		t.Error("a value of null has another digest than an empty one")
	}
	opaque := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: zero.Data}
	if copies.DigestOf(opaque) != copies.DigestOf(zero) {
		t.Error("no type has another digest than Opaque")
	}
}

func TestDigestIsIndependentOfOrder(t *testing.T) {
	t.Parallel()
	want := copies.DigestOf(configMap())
	for range 50 { // The order of a map is another each time.
		keys := []string{"a", "b"}
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		made := configMap()
		made.Data = map[string]string{}
		for _, key := range keys {
			made.Data[key] = configMap().Data[key]
		}
		if got := copies.DigestOf(made); got != want {
			t.Fatalf("digest with keys put in as %v = %v, want %v", keys, got, want)
		}
	}
}

// TestDigestTellsAllContentsApart makes every ConfigMap of few keys and values that could be taken for one another where
// they are written one behind the other.
func TestDigestTellsAllContentsApart(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "aa", "\x00", "a\x00", "\x00\x00\x00\x00\x00\x00\x00\x01"}
	seen := map[copies.Digest]corev1.ConfigMap{}
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
