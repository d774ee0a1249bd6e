package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// triggeredBy is a manifest of a Deployment that mounts several ConfigMaps and is triggered by each.
func triggeredBy(name string, sources ...string) string {
	triggers := make([]string, len(sources))
	projected := make([]string, len(sources))
	for i, source := range sources {
		triggers[i] = "configmap/" + source
		projected[i] = fmt.Sprintf("{configMap: {name: %[1]s, items: [{key: config, path: %[1]s}]}}", source)
	}
	return manifest("deployment", name,
		"triggered-by: configmap/foo", "triggered-by: \""+strings.Join(triggers, ",")+"\"",
		"configMap: {name: foo}", "projected: {sources: ["+strings.Join(projected, ", ")+"]}")
}

// values is a config of several sources that have the same value.
func values(value string, sources ...string) map[string]string {
	config := map[string]string{}
	for _, source := range sources {
		config["configmap/"+source] = value
	}
	return config
}

// TestPausedDeployment is not touched, and when it is resumed all edits made meanwhile are one rollout.
//
// Fault 34.
func TestPausedDeployment(t *testing.T) {
	t.Parallel()
	address := fixture.FreeAddress(t)
	s, ref := newSite(t, "--http-endpoint="+address), "deployment/web"
	s.putConfigMap("foo", "one")
	s.putConfigMap("bar", "one")
	s.apply(triggeredBy("web", "foo", "bar"))
	s.reached(ref, values("one", "foo", "bar"))

	s.kubectl("rollout", "pause", ref)
	s.unmoved(ref, "an edit while paused", func() { s.edit("foo", "two") })
	s.unmoved(ref, "an edit of another source while paused", func() { s.edit("bar", "two") })
	s.event("Deployment/web", rollout.ReasonHeldBack, "kubectl rollout resume")
	if got := s.measured(address, `held_back{reason="paused"}`); got != "1" {
		t.Errorf("the metric says that %s workloads are held back, want 1", got)
	}
	s.unmoved(ref, "a restart while paused", s.restart)

	before := s.past(ref)
	s.kubectl("rollout", "resume", ref)
	s.reached(ref, values("two", "foo", "bar"))
	s.wantRevisions(ref, before, 1)
}

// failing is a site of a workload of which a bad config was rolled out after all pods had become ready, and gets nowhere.
func failing(t *testing.T, kind, annotations string, flags ...string) (s *site, ref string, since time.Time) {
	t.Helper()
	s, ref = newSite(t, append([]string{"--progress-deadline=" + deadline.String()}, flags...)...), kind+"/web"
	s.failWith("bad")
	old, now := annotated(annotations)
	s.story(ref, manifest(kind, "web", old, now, "progressDeadlineSeconds: 600", "progressDeadlineSeconds: 3"), "one")
	s.haveHeardOfReady()
	since = time.Now()
	s.edit("foo", "bad")
	s.eventually(func() error {
		if bad := s.created("web"); !slices.ContainsFunc(bad, func(pod *corev1.Pod) bool { return s.configOf(pod) == "bad" }) {
			return fmt.Errorf("none of %d pods has the bad config", len(bad))
		}
		return nil
	})
	return s, ref, since
}

// haveHeardOfReady returns when the journal shows for all pods of the workload web that they are ready, which is soon after they are.
func (s *site) haveHeardOfReady() {
	s.t.Helper()
	err := s.stage.Await(s.t.Context(), s.namespace, func(pods []*corev1.Pod) bool {
		return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return isOf("web")(pod) && pod.DeletionTimestamp == nil && !fakenodes.IsReady(pod)
		})
	})
	expect.NoError(s.t, err)
}

// TestFailingRolloutHolds: a bad config stops the rollout with pods left that work, and the next edit waits until the bad
// one is undone.
func TestFailingRolloutHolds(t *testing.T) {
	t.Parallel()
	for kind, worst := range map[string]int{"deployment": 2, "statefulset": 1, "daemonset": 2} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := fixture.FreeAddress(t)
			s, ref, since := failing(t, kind, "note: mine", "--http-endpoint="+address)
			s.awaitFailing(ref)
			s.unmoved(ref, "an edit while the rollout fails", func() { s.edit("foo", "good") })
			s.event(kindOf(kind)+"/web", rollout.ReasonHeldBack, "gets nowhere")
			if got := s.measured(address, `held_back{reason="failing"}`); got != "1" {
				t.Errorf("the metric says that %s workloads are held back, want 1", got)
			}
			if got := s.stage.Journal(s.namespace).Of(isOf("web")).FewestReady(since); got < worst {
				t.Errorf("at worst %d pods were ready, want %d", got, worst)
			}

			before := s.past(ref)
			s.kubectl("rollout", "undo", ref)
			s.event(kindOf(kind)+"/web", rollout.ReasonUndone, "foo-")
			s.replaceBad(kind)
			s.reached(ref, foo("good"))
			s.wantRevisions(ref, before, 1)
			if is := s.past(ref); is.Undone || trigger.ParseMark(is.Rolled).IsUndone() {
				t.Errorf("after the rollout the workload is marked as undone: %+v", is)
			}
		})
	}
}

// deadline is after how long without progress the tests' controllers call a rollout failing.
const deadline = 2 * time.Second

// awaitFailing waits until the rollout of a Deployment has failed by its own deadline. Of the other kinds the controller
// measures that itself, and reports it only when it matters.
func (s *site) awaitFailing(ref string) {
	s.t.Helper()
	kind, name, _ := strings.Cut(ref, "/")
	if kind != "deployment" {
		for begin := time.Now(); time.Since(begin) < 3*deadline; {
			s.beat()
		}
		return
	}
	s.eventually(func() error {
		for _, c := range s.deployment(name).Status.Conditions {
			if c.Reason == "ProgressDeadlineExceeded" {
				return nil
			}
		}
		return fmt.Errorf("the rollout of %s has not failed", ref)
	})
}

// replaceBad deletes pods of a StatefulSet that have the bad config: its controller waits for them to work before it gives
// them another template, which is a known issue of forced rollback.
func (s *site) replaceBad(kind string) {
	s.t.Helper()
	if kind != "statefulset" {
		return
	}
	for _, pod := range s.stage.Pods(s.namespace) {
		if s.configOf(pod) == "bad" {
			s.kubectl("delete", "pod", pod.Name)
		}
	}
}

func isOf(name string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels["app"] == name }
}

// TestFailingRolloutHoldsNot: a user who wants to go forward from a bad config may, by an annotation or for all workloads.
func TestFailingRolloutHoldsNot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations string
		flags       []string
		held        bool
	}{
		"the annotation rolls through a failure":               {annotations: "liveconfig.internal/while-failing: roll"},
		"the flag rolls through a failure":                     {annotations: "note: mine", flags: []string{"--hold-failing=false"}},
		"the annotation to hold goes before the flag":          {annotations: "liveconfig.internal/while-failing: hold", flags: []string{"--hold-failing=false"}, held: true},
		"what is held is rolled out when the annotation comes": {annotations: "note: mine", held: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ref, _ := failing(t, "deployment", test.annotations, test.flags...)
			s.awaitFailing(ref)
			before := s.past(ref)
			s.edit("foo", "good")
			if test.held {
				s.event("Deployment/web", rollout.ReasonHeldBack, "gets nowhere")
				s.unmoved(ref, "waiting", func() {})
				s.kubectl("annotate", "--overwrite", ref, trigger.WhileFailing+"="+trigger.Roll)
			}
			s.reached(ref, foo("good"))
			s.wantRevisions(ref, before, 1)
		})
	}
}

// TestOldPodsKeepTheOldConfig: a pod of the old revision that is deleted while the new one fails comes back with the old
// config.
//
// Fault 34.
func TestOldPodsKeepTheOldConfig(t *testing.T) {
	t.Parallel()
	s, ref, _ := failing(t, "deployment", "note: mine")
	s.awaitFailing(ref)
	var victim *corev1.Pod
	for _, pod := range s.stage.Pods(s.namespace) {
		if s.configOf(pod) == "one" && fakenodes.IsReady(pod) {
			victim = pod
		}
	}
	before := time.Now()
	expect.NoError(t, s.client.CoreV1().Pods(s.namespace).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}))
	s.eventually(func() error {
		for _, e := range s.stage.Journal(s.namespace).Since(before) {
			if e.What == fakenodes.Ready && e.Owner() == fakenodes.Owner(victim) {
				if got := s.configOf(e.Pod); got != "one" {
					t.Errorf("the pod that took the place of an old one has the config %q, want one", got)
				}
				return nil
			}
		}
		return fmt.Errorf("no pod took the place of %s", victim.Name)
	})
	if _, template := s.see(ref); template.Annotations[trigger.ConfigAnnotation] == "" {
		t.Error("the template has no config any more")
	}
}

// TestAReleasedTrigger: edits of a released object reach pods without a rollout, so it cannot trigger one as well.
func TestAReleasedTrigger(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.kubectl("annotate", "configmap/foo", "liveconfig.internal/release={}")
	s.event("Deployment/web", rollout.ReasonHeldBack, "configmap/foo has the annotation liveconfig.internal/release, so its edits reach pods without a rollout: "+
		"remove the annotation, or configmap/foo from liveconfig.internal/triggered-by")
	s.unmoved("deployment/web", "an edit of a released object", func() { s.edit("foo", "two") })
	s.kubectl("annotate", "configmap/foo", "liveconfig.internal/release-")
	s.rolledOut("web", map[string]string{"configmap/foo": "two"})
}

// TestAReleasedSourceOfCopies is a mistake, which both report: the pods have copies, and a release would reach none of them. It ends
// when the workload is not triggered any more and has the source itself.
func TestAReleasedSourceOfCopies(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t, "--releases"), "deployment/web"
	s.putConfigMap("foo", "one")
	s.apply(triggeredBy("web", "foo"))
	s.reached(ref, values("one", "foo"))
	s.kubectl("annotate", "configmap/foo", release.Annotation+"={steps: [1], pause: 1h}")
	s.event("ConfigMap/foo", releases.ReasonMistake, "have copies of it, because the annotation "+trigger.TriggeredBy)
	s.edit("foo", "two")
	s.event("Deployment/web", rollout.ReasonHeldBack, "its edits reach pods without a rollout")
	if out := s.kubectl("get", "configmaps", "--output=name"); strings.Contains(out, "foo.stable") {
		t.Errorf("there is a stable copy that no pod uses:\n%s", out)
	}
	s.kubectl("delete", ref, "--wait")
	s.eventually(func() error {
		_, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), "foo.stable", metav1.GetOptions{})
		return err
	})
}
