package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

func TestPartners(t *testing.T) {
	t.Parallel()
	first := release.Exposure{Digest: "1", With: map[string]string{"configmap/a": "1", "secret/b": "1"}}
	second := release.Exposure{Digest: "2", With: map[string]string{"configmap/a": "2", "secret/c": "2"}}
	one := release.ParsePartners("").Promoted(first)
	both := one.Promoted(second)
	if !one.IsPromotedWith("secret/b", first.Audience()) || one.IsPromotedWith("secret/b", second.Audience()) || one.IsPromotedWith("secret/c", first.Audience()) {
		t.Errorf("the partners %v do not say that b was promoted by the first release", one)
	}
	if !both.IsPromotedWith("secret/b", first.Audience()) || !both.IsPromotedWith("secret/c", second.Audience()) || both.IsPromotedWith("configmap/a", first.Audience()) {
		t.Errorf("the partners %v do not say that b was promoted by the first release, and c by the second", both)
	}
	if both.IsPromotedWith("secret/d", release.Exposure{Digest: "3"}.Audience()) {
		t.Error("an object is said to be promoted with others by a release of one object")
	}
	if diff := cmp.Diff(both, release.ParsePartners(both.String())); diff != "" {
		t.Errorf("partners are not read as they are written (-want +got):\n%s", diff)
	}
	if text := release.Partners(nil).String(); text != "" || len(release.ParsePartners(`{"a": 1}`)) > 0 || len(release.ParsePartners("{")) > 0 {
		t.Errorf("no partners are written as %q, or what is none is read as one", text)
	}
}
