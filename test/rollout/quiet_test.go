package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// TestEditsTogetherAreOneRollout: several sources, or one many times, that are edited within the quiet period.
//
// Fault 33.
func TestEditsTogetherAreOneRollout(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t, "--quiet-period=5s"), "deployment/web"
	sources := []string{"foo", "bar", "baz"}
	for _, source := range sources {
		s.putConfigMap(source, "one")
	}
	s.apply(triggeredBy("web", sources...))
	s.reached(ref, values("one", sources...))

	before := s.past(ref)
	for _, source := range sources {
		s.edit(source, "two")
	}
	s.reached(ref, values("two", sources...))
	s.wantRevisions(ref, before, 1)

	before = s.past(ref)
	for i := range 10 {
		s.edit("foo", fmt.Sprint("three-", i))
	}
	s.reached(ref, foo("three-9"))
	s.wantRevisions(ref, before, 1)
	for i := range 9 {
		if value := fmt.Sprint("three-", i); slices.Contains(s.read("web"), value) {
			t.Errorf("a pod had the config %s, which was there for a moment", value)
		}
	}
}

// TestEditAndTemplateTogether: a user who edits a source and changes the template right after gets one revision of the template
// with the old config at most, and it does not wait for quiet. The controller has seen the edit by then: it watches
// sources and workloads apart, so that of two changes at one moment it may see either first.
//
// Fault 33.
func TestEditAndTemplateTogether(t *testing.T) {
	t.Parallel()
	const long = 30 * time.Second
	s, ref := newSite(t, "--quiet-period="+long.String()), "deployment/web"
	s.story(ref, deployment("web"), "one")
	before, waited, begin := s.past(ref), len(s.logged("msg=Waiting")), time.Now()
	s.edit("foo", "two")
	s.eventually(func() error {
		if len(s.logged("msg=Waiting")) == waited {
			return errors.New("the controller has not seen the edit")
		}
		return nil
	})
	s.setImage(ref, "example.test/main:2")
	s.turned(ref, foo("two"))
	if took := time.Since(begin); took > long {
		t.Errorf("together with the template the edit took %s, want less than the quiet period of %s", took, long)
	}
	s.reached(ref, foo("two"))
	after := s.past(ref)
	t.Logf("an edit and a change of the template made %d revisions and %d pods", len(after.Revisions)-len(before.Revisions), after.Pods-before.Pods)
	if got := len(after.Revisions) - len(before.Revisions); got > 2 {
		t.Errorf("there are %d more revisions, want 2 at most", got)
	}
	if _, template := s.see(ref); template.Spec.Containers[0].Image != "example.test/main:2" {
		t.Errorf("the rollout of the config took the image back to %s", template.Spec.Containers[0].Image)
	}
	s.args = append(s.args, "--quiet-period="+quiet.String())
	s.restart()
	s.unmoved(ref, "waiting", func() {})
}

// setImage is kubectl set image, without the time that a process takes.
func (s *site) setImage(ref, image string) {
	s.t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, name, _ := strings.Cut(ref, "/")
	_, err := s.client.AppsV1().Deployments(s.namespace).Patch(s.t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	expect.NoError(s.t, err)
}

// TestAppliedTogether: a Deployment and its source that are changed by one apply.
//
// Fault 33.
func TestAppliedTogether(t *testing.T) {
	t.Parallel()
	const source = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: foo}\ndata: {config: %q}\n"
	tests := map[string]string{
		"the source first":     fmt.Sprintf(source, "two") + "---\n" + manifest("deployment", "web", "main:1", "main:2"),
		"the deployment first": manifest("deployment", "web", "main:1", "main:2") + fmt.Sprintf(source, "two"),
	}
	for name, both := range tests {
		for by, flags := range map[string][]string{"client": nil, "server": {"--server-side", "--force-conflicts"}} {
			t.Run(name+" by the "+by, func(t *testing.T) {
				t.Parallel()
				s, ref := newSite(t), "deployment/web"
				s.story(ref, deployment("web"), "one")
				before := s.past(ref)
				s.apply(both, flags...)
				s.reached(ref, foo("two"))
				after := s.past(ref)
				t.Logf("%d revisions and %d pods came of it", len(after.Revisions)-len(before.Revisions), after.Pods-before.Pods)
				// The API server has the template that names the source for a moment, and Kubernetes' controller may see it.
				if got := len(after.Revisions) - len(before.Revisions); got > 3 {
					t.Errorf("there are %d more revisions, want 3 at most", got)
				}
				s.eventually(func() error { return s.noRevisionIsPlain(ref) })
				s.unmoved(ref, "waiting", func() {})
				if diff := cmp.Diff("two", s.configOf(s.stage.Pods(s.namespace)[0])); diff != "" {
					t.Errorf("the config of a pod (-want +got):\n%s", diff)
				}
			})
		}
	}
}
