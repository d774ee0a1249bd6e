package revisions_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestWhatPodsDoNotUse: a revision has the version of a trigger that the template does not name,
// and no copy of it.
func TestWhatPodsDoNotUse(t *testing.T) {
	t.Parallel()
	config := trigger.Config{foo: trigger.Uncopied("foo-0123456789")}
	set := replicaSet("1", pods("other", config.String()))
	history := revisions.OfDeployment(deployment(pods("other", config.String()), config), []appsv1.ReplicaSet{set}, place.Driver)
	want := []revisions.Item{{Source: foo, Unused: "foo-0123456789"}}
	if diff := cmp.Diff(want, history.Revisions[0].Items); diff != "" {
		t.Errorf("items (-want +got)\n%s", diff)
	}
	if want[0].IsSource() {
		t.Error("pods that do not use a source are reported to use it directly")
	}
}
