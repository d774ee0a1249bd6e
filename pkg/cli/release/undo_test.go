package release

import (
	"errors"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestHalfAnUndo: drivers that see one object as it was before an edit, and another one with it, keep what they have. The rest is
// done when the command is repeated.
func TestHalfAnUndo(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	maps := client.CoreV1().ConfigMaps("n")
	promoted := release.Exposure{With: map[string]string{"configmap/one": "7", "configmap/two": "7"}}
	for _, name := range []string{"one", "two"} {
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: name}
		create := func(name, version, value string, annotations, labels map[string]string) {
			t.Helper()
			m := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, ResourceVersion: version, Annotations: annotations, Labels: labels},
				Data:       map[string]string{"a": value},
			}
			if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create(name, "7", "1", nil, nil) // As it was before the edit.
		before, err := stable.Read(t.Context(), client, ref)
		if err != nil {
			t.Fatal(err)
		}
		former, err := stable.NewFormer(ref).Keep(before, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (stable.Writer{Client: client}).Keep(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		create(name, "7", "2", map[string]string{release.Annotation: "group: g"}, nil)
		promoted.Digest = release.Digest(map[string][]byte{"a": []byte("2")})
		create(name+release.Suffix, "8", "2", stable.AnnotatePromoted(stable.Annotate(nil, promoted), promoted.Digest, time.Unix(1, 0), ""),
			map[string]string{release.StableLabel: name})
	}
	errStop := errors.New("the machine is switched off")
	writes := 0
	client.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		writes++
		return writes == 2, nil, errStop
	})
	o := &act{target: target{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}}}, because: "undone"}
	undo := func() error {
		p, err := read(t.Context(), client, api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		return o.undoOnce(t.Context(), client, p)
	}
	copies := func() (one, two stable.Object) {
		t.Helper()
		for name, to := range map[string]*stable.Object{"one": &one, "two": &two} {
			var err error
			if *to, err = stable.Read(t.Context(), client, api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: name + release.Suffix}); err != nil {
				t.Fatal(err)
			}
		}
		return one, two
	}
	if err := undo(); !errors.Is(err, errStop) {
		t.Fatalf("err = %v", err)
	}
	one, two := copies()
	if string(one.Data()["a"]) != "1" || string(two.Data()["a"]) != "2" {
		t.Fatalf("the copies have %q and %q, want that one is undone", one.Data(), two.Data())
	}
	if one.Partners()["configmap/two"] == two.Partners()["configmap/one"] || two.Partners().IsPromotedWith("configmap/one", one.Exposure().Audience()) {
		t.Error("the copies agree, so drivers show half of the group")
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	one, two = copies()
	if string(two.Data()["a"]) != "1" || one.Partners()["configmap/two"] != two.Partners()["configmap/one"] {
		t.Errorf("the copies have %q and %q, and the partners %v and %v", one.Data(), two.Data(), one.Partners(), two.Partners())
	}
	if err := undo(); err == nil {
		t.Error("what is undone is undone again")
	}
}
