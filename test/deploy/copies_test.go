package deploy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/api"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// written is a ConfigMap or a Secret before somebody writes it.
type written struct {
	kind      api.Kind
	object    runtime.Object
	meta      *metav1.ObjectMeta
	immutable **bool
	secret    *corev1.Secret // Nil for a ConfigMap.
	configMap *corev1.ConfigMap
}

func ofSecret(s *corev1.Secret) *written {
	return &written{kind: api.Secret, object: s, meta: &s.ObjectMeta, immutable: &s.Immutable, secret: s}
}

func ofConfigMap(m *corev1.ConfigMap) *written {
	return &written{kind: api.ConfigMap, object: m, meta: &m.ObjectMeta, immutable: &m.Immutable, configMap: m}
}

// plainObject returns an object without marks.
func plainObject(kind api.Kind, name string) *written {
	meta := metav1.ObjectMeta{Name: name}
	if kind == api.Secret {
		return ofSecret(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte("1")}})
	}
	return ofConfigMap(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}})
}

func (w *written) setData(content string) {
	if w.secret != nil {
		w.secret.Data = map[string][]byte{"a": []byte(content)}
		return
	}
	w.configMap.Data = map[string]string{"a": content}
}

func (w *written) restore(source api.Ref) (labels, annotations map[string]any, err error) {
	if w.secret != nil {
		return copies.Restore(w.secret, source)
	}
	return copies.Restore(w.configMap, source)
}

// copyOfKind returns the copy of a source as the controller makes it. The source has a label and an annotation that copies get.
func copyOfKind(t *testing.T, kind api.Kind, source, content string) *written {
	t.Helper()
	w := plainObject(kind, source)
	w.setData(content)
	w.meta.UID, w.meta.ResourceVersion = "a", "1"
	w.meta.Labels = map[string]string{"team": "a", "example.org/b": ""}
	w.meta.Annotations = map[string]string{copies.CopiedLabels: "team, example.org/b", copies.CopiedAnnotations: "note", "note": "c"}
	if kind == api.Secret {
		made, err := copies.OfSecret(w.secret)
		if err != nil {
			t.Fatal(err)
		}
		return ofSecret(made)
	}
	made, err := copies.OfConfigMap(w.configMap)
	if err != nil {
		t.Fatal(err)
	}
	return ofConfigMap(made)
}

// stableCopy returns the stable copy of a source as the controller makes it.
func stableCopy(kind api.Kind, source string) *written {
	w := plainObject(kind, source+releases.Suffix)
	w.meta.Labels, w.meta.Annotations = map[string]string{stableOf: releases.LabelOf(source)}, map[string]string{}
	return w
}

// formerOf returns an object that keeps what a source had before, as the controller makes it.
func formerOf(kind api.Kind, source string) *written {
	w := plainObject(kind, source+releases.FormerSuffix)
	w.meta.Labels, w.meta.Annotations = map[string]string{releases.FormerLabel: releases.LabelOf(source)}, map[string]string{}
	return w
}

func resource(kind api.Kind) string { return strings.ToLower(string(kind)) + "s" }

// writes creates an object with the controller's token, in a dry run.
func (by *thief) writes(t *testing.T, namespace string, w *written) error {
	t.Helper()
	return by.client.CoreV1().RESTClient().Post().Namespace(namespace).Resource(resource(w.kind)).Param("dryRun", "All").Body(w.object).Do(t.Context()).Error()
}

func wantTry(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("to %s = %v, want %q", what, err, want)
	}
}

// TestPageOfTriesWithTheControllersToken tries what somebody could who has the token of the controller, with every right in the
// namespace. docs/security/checks.md has a line for each try: what it is, and how the API server refuses it.
func TestPageOfTriesWithTheControllersToken(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	awaitPolicy(t, func() error { return by.writes(t, by.team, plainObject(api.Secret, "probe")) })
	awaitPolicy(t, func() error { return by.writes(t, by.team, plainObject(api.ConfigMap, "probe")) })
	r := &refusals{}
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		for _, test := range triesToCreate() {
			if w := copyOfKind(t, kind, "web", "1"); !test.ofSecrets || kind == api.Secret {
				test.change(w)
				r.add(t, "create a copy", test.what, kind, by.writes(t, by.team, w), test.want)
			}
		}
		for _, test := range triesToCreateStable() {
			if w := stableCopy(kind, "web"); !test.ofSecrets || kind == api.Secret {
				test.change(w)
				r.add(t, "create a stable copy", test.what, kind, by.writes(t, by.team, w), test.want)
			}
		}
		for _, test := range triesToCreateFormer() {
			if w := formerOf(kind, "web"); !test.ofSecrets || kind == api.Secret {
				test.change(w)
				r.add(t, "keep former contents", test.what, kind, by.writes(t, by.team, w), test.want)
			}
		}
		for _, test := range by.newExisting(t, kind).triesToChange() {
			r.add(t, map[bool]string{true: "change", false: "delete"}[test.patch != ""], strings.TrimPrefix(test.what, "delete "), kind,
				by.change(t, kind, test), test.want)
		}
	}
	docs.Table{
		Page: "security/checks.md", Name: "the tries", Columns: []string{"write", "of", "what is tried", "answer"}, Rows: r.rows,
	}.Compare(t)
}

// refusals are the rows of the table. A row is about both kinds if the answers are the same.
type refusals struct{ rows [][]string }

func (r *refusals) add(t *testing.T, write, what string, kind api.Kind, err error, want string) {
	t.Helper()
	wantTry(t, write+": "+what+" ("+string(kind)+")", err, want)
	row := []string{write, string(kind), what, answer(err)}
	for i, other := range r.rows {
		if other[0] != write || other[2] != what {
			continue
		}
		if other[3] == row[3] {
			other[1] = "both"
		} else {
			r.rows = slices.Insert(r.rows, i+1, row)
		}
		return
	}
	last := len(r.rows) // A new row comes after those of the same write.
	for i, other := range r.rows {
		if other[0] == write {
			last = i + 1
		}
	}
	r.rows = slices.Insert(r.rows, last, row)
}

// answer returns how the API server refuses a write, without the names of this test.
func answer(err error) string {
	if err == nil {
		return "allowed"
	}
	if _, message, isOfPolicy := strings.Cut(err.Error(), " denied request: "); isOfPolicy {
		return message
	}
	_, message, _ := strings.Cut(err.Error(), " is invalid: ")
	return "the API server: " + message
}

// TestTheControllerMayCreateItsCopies: the policy takes copies of sources with long names, and no token of a node elsewhere.
func TestTheControllerMayCreateItsCopies(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	awaitPolicy(t, func() error { return by.writes(t, by.team, plainObject(api.Secret, "probe")) })
	long := strings.Repeat("a", 240) + "." + strings.Repeat("b", 10)
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		for what, w := range map[string]*written{
			"a long name":                           copyOfKind(t, kind, long, "1"),
			"a name that is cut before a dot":       copyOfKind(t, kind, strings.Repeat("a", 51)+"."+strings.Repeat("b", 189)+"."+long[240:], "1"),
			"a name as long as is not cut":          copyOfKind(t, kind, strings.Repeat("a", 242), "1"),
			"a long label":                          copyOfKind(t, kind, strings.Repeat("a", 64), "1"),
			"a long name of a stable copy":          stableCopy(kind, long[:releases.MostName]),
			"a stable copy that is cut at a hyphen": stableCopy(kind, strings.Repeat("a", 51)+"-"+strings.Repeat("b", 90)),
		} {
			if err := by.writes(t, by.team, w); err != nil {
				t.Errorf("to create an object with %s = %v", what, err)
			}
		}
	}
	token := copyOfKind(t, api.Secret, "web", "1")
	token.meta.Name, token.secret.Type = "bootstrap-token-abcdef", corev1.SecretTypeBootstrapToken
	wantTry(t, "create a token of a node", by.writes(t, metav1.NamespaceSystem, token), "ValidatingAdmissionPolicy")
	plain := plainObject(api.Secret, "plain")
	admin := by.cluster.Client().CoreV1().Secrets(by.team)
	if _, err := admin.Create(t.Context(), plain.secret, metav1.CreateOptions{}); err != nil {
		t.Errorf("an administrator creates a Secret: %v", err)
	}
	plain.setData("2")
	if _, err := admin.Update(t.Context(), plain.secret, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an administrator changes a Secret: %v", err)
	}
}
