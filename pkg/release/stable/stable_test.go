package stable_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestCopiesAgree about the release that promoted them together, also after one was promoted alone, and
// again after one was not promoted with the other.
func TestCopiesAgree(t *testing.T) {
	t.Parallel()
	const a, b = "configmap/a", "secret/b"
	copies := map[string]stable.Object{a: {}, b: {}}
	expose := func(names map[string]string, all ...string) {
		for _, name := range all {
			e := release.Exposure{Digest: "of " + name, With: names}
			copies[name] = stable.Object{Annotations: stable.Annotate(copies[name].Annotations, e)}
		}
	}
	promote := func(name string, others map[string]release.Partners) {
		annotations := stable.AnnotatePromoted(copies[name].Annotations, "of "+name, time.Unix(0, 0), "")
		copies[name] = stable.Object{Annotations: stable.AgreeWith(annotations, name, others)}
	}
	want := func(agree bool) {
		t.Helper()
		ofA, ofB := copies[a].Partners(), copies[b].Partners()
		if (ofA[b] != "" && ofA[b] == ofB[a]) != agree {
			t.Errorf("the partners are %v and %v, want that they agree: %t", ofA, ofB, agree)
		}
	}
	expose(map[string]string{a: "1", b: "1"}, a, b)
	promote(a, nil)
	want(false)
	promote(b, nil)
	want(true)
	expose(nil, b)
	promote(b, map[string]release.Partners{a: copies[a].Partners()})
	want(true)
	if got := copies[b].Together(); got != "" {
		t.Errorf("b was promoted alone, and is said to be by %s", got)
	}
	expose(map[string]string{a: "2", b: "2"}, a, b)
	promote(a, nil)
	want(false)
	expose(nil, b) // It was edited once more.
	promote(b, map[string]release.Partners{a: copies[a].Partners()})
	want(true)
	if diff := cmp.Diff(map[string]string{"x": "y"}, stable.AgreeWith(map[string]string{"x": "y"}, a, map[string]release.Partners{b: nil})); diff != "" {
		t.Errorf("annotations without partners (-want +got):\n%s", diff)
	}
}
