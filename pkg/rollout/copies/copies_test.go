package copies_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// sourceMeta is metadata with everything in it that a copy must not have.
func sourceMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "42", Generation: 3,
		GenerateName: "generated-", CreationTimestamp: metav1.Now(), DeletionTimestamp: new(metav1.Now()),
		Labels:          map[string]string{"argocd.argoproj.io/instance": "shop", "app": "web"},
		Annotations:     map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "argocd.argoproj.io/tracking-id": "shop"},
		Finalizers:      []string{"example.com/hold"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "u"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: sourceMeta("foo"),
		Data:       map[string]string{"a": "1", "b": "2"},
		BinaryData: map[string][]byte{"c": {0, 0xff}},
	}
}

func secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: sourceMeta("tls"),
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("hunter2")},
	}
}

// configMapCopy returns the copy of a ConfigMap that has one.
func configMapCopy(t *testing.T, source *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := copies.OfConfigMap(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// secretCopy returns the copy of a Secret that has one.
func secretCopy(t *testing.T, source *corev1.Secret) *corev1.Secret {
	t.Helper()
	made, err := copies.OfSecret(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const (
	digestOfFoo = "sha256:85818259168e761dd3017aacb0f2df438010bf8a6b542ce26bd928f88ab9eb45"
	digestOfTLS = "sha256:3ea032e7de307af6e9a9543338906146e0be2bd13304ab6e1b98df83a8aea8a3"
)

// TestDigestsStay holds the digests themselves: after an update of the controller that makes others of the same content,
// every workload would be rolled out again.
func TestDigestsStay(t *testing.T) {
	t.Parallel()
	for range 50 { // The order of a map is another each time.
		if got := copies.DigestOf(configMap()).String(); got != digestOfFoo {
			t.Fatalf("digest of the ConfigMap = %s, want %s", got, digestOfFoo)
		}
		if got := copies.DigestOf(secret()).String(); got != digestOfTLS {
			t.Fatalf("digest of the Secret = %s, want %s", got, digestOfTLS)
		}
	}
}

func TestOfConfigMap(t *testing.T) {
	t.Parallel()
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "foo-" + digestOfFoo[7:17],
			Labels: map[string]string{"liveconfig.internal/copy-of": "foo", "app.kubernetes.io/managed-by": "liveconfig-controller"},
			Annotations: map[string]string{
				"liveconfig.internal/source":                  "configmap/foo",
				"liveconfig.internal/source-uid":              "uid-of-foo",
				"liveconfig.internal/source-resource-version": "42",
				"liveconfig.internal/digest":                  digestOfFoo,
				"liveconfig.internal/note": "A copy for the revisions that use it. To change the config, edit configmap/foo. " +
					"This object goes with the last revision that needs it.",
			},
		},
		Immutable:  new(true),
		Data:       map[string]string{"a": "1", "b": "2"},
		BinaryData: map[string][]byte{"c": {0, 0xff}},
	}
	source := configMap()
	got := configMapCopy(t, source)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("OfConfigMap (-want +got)\n%s", diff)
	}
	got.Data["a"], got.BinaryData["c"][0] = "changed", 1
	if diff := cmp.Diff(configMap().BinaryData, source.BinaryData); diff != "" || source.Data["a"] != "1" {
		t.Errorf("the copy shares memory with its source: %q (-want +got)\n%s", source.Data, diff)
	}
}

func TestOfSecret(t *testing.T) {
	t.Parallel()
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "tls-" + digestOfTLS[7:17],
			Labels: map[string]string{copies.Label: "tls", copies.ManagedByLabel: copies.ManagedBy},
			Annotations: map[string]string{
				copies.SourceAnnotation:                "secret/tls",
				copies.SourceUIDAnnotation:             "uid-of-tls",
				copies.SourceResourceVersionAnnotation: "42",
				copies.DigestAnnotation:                digestOfTLS,
				copies.NoteAnnotation: "A copy for the revisions that use it. To change the config, edit secret/tls. " +
					"This object goes with the last revision that needs it.",
			},
		},
		Immutable: new(true),
		Type:      corev1.SecretTypeTLS,
		Data:      map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("hunter2")},
	}
	source := secret()
	source.StringData = map[string]string{"tls.key": "is never returned"}
	got := secretCopy(t, source)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("OfSecret (-want +got)\n%s", diff)
	}
	got.Data["tls.key"][0] = 'H'
	if string(source.Data["tls.key"]) != "hunter2" {
		t.Error("the copy shares memory with its source")
	}
}

func TestEveryTypeOfSecret(t *testing.T) {
	t.Parallel()
	tests := map[corev1.SecretType]struct {
		copied corev1.SecretType
		advice string
	}{
		"":                                   {copied: corev1.SecretTypeOpaque},
		corev1.SecretTypeOpaque:              {copied: corev1.SecretTypeOpaque},
		corev1.SecretTypeBasicAuth:           {copied: corev1.SecretTypeBasicAuth},
		corev1.SecretTypeSSHAuth:             {copied: corev1.SecretTypeSSHAuth},
		corev1.SecretTypeTLS:                 {copied: corev1.SecretTypeTLS},
		corev1.SecretTypeDockercfg:           {copied: corev1.SecretTypeDockercfg},
		corev1.SecretTypeDockerConfigJson:    {copied: corev1.SecretTypeDockerConfigJson},
		"helm.sh/release.v1":                 {copied: "helm.sh/release.v1"},
		corev1.SecretTypeServiceAccountToken: {advice: "mount a projected serviceAccountToken"},
		corev1.SecretTypeBootstrapToken:      {advice: "take it off the list"},
	}
	for kind, test := range tests {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			source := secret()
			source.Type = kind
			made, err := copies.OfSecret(source)
			if test.advice == "" {
				if err != nil || made.Type != test.copied {
					t.Errorf("OfSecret = %v, %v, want one of type %s", made, err, test.copied)
				}
				return
			}
			if made != nil || !errors.Is(err, copies.ErrNotCopyable) {
				t.Fatalf("OfSecret = %v, %v, want %v", made, err, copies.ErrNotCopyable)
			}
			for _, want := range []string{"secret/tls", string(kind), test.advice} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %q, want it to have %q", err, want)
				}
			}
			checkNoSecret(t, source, err)
		})
	}
}

// checkNoSecret holds for every message about a Secret: neither its bytes nor its digest are in it.
func checkNoSecret(t *testing.T, s *corev1.Secret, err error) {
	t.Helper()
	digest := copies.DigestOf(s)
	for _, form := range []string{"%v", "%+v", "%#v", "%q"} {
		message := fmt.Sprintf(form, err)
		for _, no := range []string{"hunter2", "certificate", "aHVudGVyMg", digest.String()[7:], fmt.Sprintf("%d", digest)} {
			if strings.Contains(message, no) {
				t.Errorf("the message has %q in it: %s", no, message)
			}
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	d := copies.DigestOf(configMap())
	hex := d.String()[7:17]
	tests := map[string]struct{ source, want string }{
		"a short name":                {"foo", "foo-" + hex},
		"dots":                        {"kube-root-ca.crt", "kube-root-ca.crt-" + hex},
		"as long as it may be":        {strings.Repeat("a", 242), strings.Repeat("a", 242) + "-" + hex},
		"one character too long":      {strings.Repeat("a", 243), ""},
		"as long as a name may be":    {strings.Repeat("a", 253), ""},
		"cut before a dot":            {strings.Repeat("a", 242) + "." + strings.Repeat("b", 10), ""},
		"cut after a dot":             {strings.Repeat("a", 241) + "." + strings.Repeat("b", 11), ""},
		"cut amid hyphens":            {"a" + strings.Repeat("-", 250) + "b", ""},
		"cut amid hyphens and a dot":  {strings.Repeat("a", 200) + strings.Repeat("b-b.", 13) + "b", ""},
		"a hyphen where the cut is":   {strings.Repeat("a", 241) + "-" + strings.Repeat("b", 11), ""},
		"labels of one character":     {strings.Repeat("a.", 126) + "b", ""},
		"what is a name of a copy":    {"foo-" + hex, "foo-" + hex + "-" + hex},
		"a digit alone":               {"0", "0-" + hex},
		"nothing but letters to keep": {strings.Repeat("z", 250), ""},
	}
	seen := map[string]string{}
	for about, test := range tests {
		got := copies.Name(test.source, d)
		if test.want != "" && got != test.want {
			t.Errorf("%s: Name(%s) = %s, want %s", about, test.source, got, test.want)
		}
		for _, name := range []string{test.source, got} {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("%s: Name = %s, and no object can have the name %s: %v", about, got, name, problems)
			}
		}
		if other, found := seen[got]; found {
			t.Errorf("%s has the same copy as %s", about, other)
		}
		seen[got] = about
	}
}

// TestLongNamesStayDistinct is for names that are cut: the part that is left is the same.
func TestLongNamesStayDistinct(t *testing.T) {
	t.Parallel()
	begin := strings.Repeat("a", 250)
	d, other := copies.DigestOf(configMap()), copies.DigestOf(secret())
	names := map[string]string{
		copies.Name(begin+"b", d):     "one source",
		copies.Name(begin+"c", d):     "another source with the same content",
		copies.Name(begin+"b", other): "another content of the one source",
	}
	labels := map[string]string{copies.LabelValue(begin + "b"): "one source", copies.LabelValue(begin + "c"): "another"}
	if len(names) != 3 || len(labels) != 2 {
		t.Errorf("names and labels = %v, %v, want three and two", names, labels)
	}
	for name := range names {
		if !strings.HasPrefix(name, begin[:242]+"-") || len(name) != 253 {
			t.Errorf("Name = %s, want it to begin with what fits of the source's", name)
		}
	}
}

func TestLabelValue(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ source, want string }{
		"a short name":             {"foo", "foo"},
		"dots and hyphens":         {"kube-root-ca.crt", "kube-root-ca.crt"},
		"as long as it may be":     {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"one character too long":   {strings.Repeat("a", 64), strings.Repeat("a", 52) + "-ffe054fe7a"},
		"a dot before the cut":     {strings.Repeat("a", 51) + "." + strings.Repeat("b", 60), ""},
		"hyphens before the cut":   {"a" + strings.Repeat("-", 100) + "b", ""},
		"as long as a name may be": {strings.Repeat("a", 253), ""},
	}
	for about, test := range tests {
		got := copies.LabelValue(test.source)
		if test.want != "" && got != test.want {
			t.Errorf("%s: LabelValue(%s) = %s, want %s", about, test.source, got, test.want)
		}
		if problems := validation.IsValidLabelValue(got); got == "" || len(problems) > 0 {
			t.Errorf("%s: LabelValue = %q, which no label can have: %v", about, got, problems)
		}
	}
}

func TestCopiesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	made := secretCopy(t, secret())
	if !copies.Is(made.Labels) || copies.Is(secret().Labels) || copies.Is(nil) {
		t.Error("Is takes a copy for none, or others for one")
	}
	source, err := copies.SourceOf(made.Annotations)
	if want := (api.Ref{Kind: api.Secret, Name: "tls"}); source != want || err != nil {
		t.Errorf("SourceOf = %v, %v, want %v", source, err, want)
	}
	if got, want := copies.DigestOf(made), copies.DigestOf(secret()); got != want {
		t.Errorf("digest of the copy = %v, want that of its source %v", got, want)
	}
}

func TestAnnotationsThatSomebodyHasEdited(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":         {nil, "is missing"},
		"empty":        {map[string]string{copies.SourceAnnotation: ""}, "names no kind"},
		"another word": {map[string]string{copies.SourceAnnotation: "foo"}, "names no kind"},
		"another kind": {map[string]string{copies.SourceAnnotation: "pod/foo"}, `kind "pod"`},
		"no name":      {map[string]string{copies.SourceAnnotation: "configmap/"}, "names no object"},
		"a bad name":   {map[string]string{copies.SourceAnnotation: "configmap/A"}, "names no object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := copies.SourceOf(test.annotations)
			for _, want := range []string{copies.SourceAnnotation, test.want} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to have %q", err, want)
				}
			}
		})
	}
}

// TestIsName: a copy is called as its source, with ten digits behind a hyphen.
func TestIsName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 241) + "." + strings.Repeat("b", 9)
	for about, test := range map[string]struct {
		source, name string
		want         bool
	}{
		"a copy":                       {"foo", "foo-0123456789", true},
		"the source":                   {"foo", "foo", false},
		"a copy of another":            {"foo", "bar-0123456789", false},
		"a copy of a copy":             {"foo", "foo-0123456789-0123456789", false},
		"a letter that is no digit":    {"foo", "foo-012345678g", false},
		"too many digits":              {"foo", "foo-01234567890", false},
		"a wildcard":                   {"foo", "*", false},
		"nothing":                      {"foo", "", false},
		"a copy whose name is cut":     {long, long[:241] + "-0123456789", true},
		"a copy that is cut elsewhere": {long, long[:240] + "-0123456789", false},
		"what copies are really named": {long, copies.Name(long, copies.Digest{1}), true},
	} {
		if got := copies.IsName(test.source, test.name); got != test.want {
			t.Errorf("%s: IsName(%.20s, %.20s) = %t, want %t", about, test.source, test.name, got, test.want)
		}
	}
}

// TestSplitName: names of copies end in a hyphen and ten digits of a hash, and have something in front of them.
func TestSplitName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"app-0123456789": {"app", "0123456789"}, "a.b-abcdefabcd": {"a.b", "abcdefabcd"},
		"-0123456789": nil, "app-012345678": nil, "app0123456789": nil, "app-012345678g": nil, "": nil,
	} {
		source, digits, ok := copies.SplitName(name)
		if ok != (want != nil) || ok && (source != want[0] || digits != want[1]) {
			t.Errorf("SplitName(%q) = %q, %q, %t, want %q", name, source, digits, ok, want)
		}
	}
}
