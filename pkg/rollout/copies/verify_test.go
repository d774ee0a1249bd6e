package copies_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	tests := map[string]struct {
		change func(*corev1.Secret)
		is     error
		says   string
	}{
		"the copy":                             {change: func(*corev1.Secret) {}},
		"with owners, as it soon has":          {change: func(s *corev1.Secret) { s.OwnerReferences = make([]metav1.OwnerReference, 3) }},
		"somebody's label and annotation more": {change: func(s *corev1.Secret) { s.Labels["a"], s.Annotations["b"] = "c", "d" }},
		"made of another state of the source":  {change: func(s *corev1.Secret) { s.Annotations[copies.SourceResourceVersionAnnotation] = "7" }},
		"it was edited before it was immutable": {
			func(s *corev1.Secret) { s.Data["tls.key"] = []byte("changed") }, copies.ErrNotThatCopy, "it has another content",
		},
		"a key more":    {func(s *corev1.Secret) { s.Data["x"] = nil }, copies.ErrNotThatCopy, "it has another content"},
		"another type":  {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, copies.ErrNotThatCopy, "it has another content"},
		"not immutable": {func(s *corev1.Secret) { s.Immutable = new(false) }, copies.ErrNotThatCopy, "it is not immutable"},
		"nothing said about immutable": {
			func(s *corev1.Secret) { s.Immutable = nil }, copies.ErrNotThatCopy, "it is not immutable",
		},
		"somebody's own object of that name": {
			func(s *corev1.Secret) { s.Labels, s.Annotations = nil, nil }, copies.ErrNotThatCopy, "it has no label liveconfig.internal/copy-of",
		},
		"it says not of what": {
			func(s *corev1.Secret) { s.Annotations = nil }, copies.ErrNotThatCopy, "the annotation liveconfig.internal/source is missing",
		},
		"it says to be another's": {
			func(s *corev1.Secret) { s.Annotations[copies.SourceAnnotation] = "secret/ssl" }, copies.ErrNotThatCopy, "it is marked as a copy of secret/ssl",
		},
		"it says to be another kind's": {
			func(s *corev1.Secret) { s.Annotations[copies.SourceAnnotation] = "configmap/tls" }, copies.ErrNotThatCopy, "it is marked as a copy of configmap/tls",
		},
		"the annotation of the digest is not believed": {
			func(s *corev1.Secret) { s.Data = nil }, copies.ErrNotThatCopy, "it has another content",
		},
		"it is going": {func(s *corev1.Secret) { s.DeletionTimestamp = &now }, copies.ErrDeleting, "made again when it is gone"},
		"a wrong one is going": {
			func(s *corev1.Secret) { s.DeletionTimestamp, s.Immutable = &now, nil }, copies.ErrNotThatCopy, "it is not immutable",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := secretCopy(t, secret())
			test.change(made)
			err := copies.Verify(made, copies.DigestOf(secret()))
			if !errors.Is(err, test.is) {
				t.Fatalf("Verify = %v, want %v", err, test.is)
			}
			if test.is == nil {
				return
			}
			checkNoSecret(t, made, err)
			checkNoSecret(t, secret(), err)
			for _, want := range []string{"secret shop/tls-" + digestOfTLS[7:17], test.says} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Verify = %q, want it to have %q", err, want)
				}
			}
		})
	}
}

func TestVerifyAConfigMap(t *testing.T) {
	t.Parallel()
	made := configMapCopy(t, configMap())
	if err := copies.Verify(made, copies.DigestOf(configMap())); err != nil {
		t.Errorf("Verify = %v, want no error", err)
	}
	changed := configMap()
	changed.Data["a"] = "changed"
	if err := copies.Verify(made, copies.DigestOf(changed)); !errors.Is(err, copies.ErrNotThatCopy) {
		t.Errorf("Verify with the digest of another content = %v, want %v", err, copies.ErrNotThatCopy)
	}
	want := "configmap shop/" + made.Name + " is not the copy that should have this name, because it is not immutable: " +
		"delete it, or rename it if it is yours"
	made.Immutable = nil
	if err := copies.Verify(made, copies.DigestOf(configMap())); err == nil || err.Error() != want {
		t.Errorf("Verify = %v, want %s", err, want)
	}
}

func TestIsMarked(t *testing.T) {
	t.Parallel()
	both := map[string]string{copies.SourceAnnotation: "configmap/app", copies.DigestAnnotation: "sha256:0"}
	if !copies.IsMarked(both) {
		t.Errorf("IsMarked(%v) = false", both)
	}
	for missing := range both {
		some := maps.Clone(both)
		delete(some, missing)
		if copies.IsMarked(some) {
			t.Errorf("IsMarked(%v) = true", some)
		}
	}
}

// TestIsMarkedAs: the annotations of a copy name its source, and the digest is that of its name.
func TestIsMarkedAs(t *testing.T) {
	t.Parallel()
	made := secretCopy(t, secret())
	tls := api.Ref{Kind: api.Secret, Name: "tls"}
	without := func(key, value string) map[string]string {
		annotations := maps.Clone(made.Annotations)
		annotations[key] = value
		return annotations
	}
	for about, test := range map[string]struct {
		source      api.Ref
		name        string
		annotations map[string]string
		want        bool
	}{
		"a copy":                    {tls, made.Name, made.Annotations, true},
		"of another source":         {api.Ref{Kind: api.Secret, Name: "other"}, made.Name, made.Annotations, false},
		"of a ConfigMap":            {api.Ref{Kind: api.ConfigMap, Name: "tls"}, made.Name, made.Annotations, false},
		"another name":              {tls, "tls-0123456789", made.Annotations, false},
		"the digest of another":     {tls, made.Name, without(copies.DigestAnnotation, "sha256:"+strings.Repeat("0", 64)), false},
		"a digest that is too long": {tls, made.Name, without(copies.DigestAnnotation, made.Annotations[copies.DigestAnnotation]+"00"), false},
		"no digest":                 {tls, made.Name, without(copies.DigestAnnotation, ""), false},
		"no source":                 {tls, made.Name, without(copies.SourceAnnotation, ""), false},
		"nothing":                   {tls, made.Name, nil, false},
	} {
		if got := copies.IsMarkedAs(test.source, test.name, test.annotations); got != test.want {
			t.Errorf("%s: IsMarkedAs = %t, want %t", about, got, test.want)
		}
	}
}
