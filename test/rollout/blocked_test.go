package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// broken waits until the one pod with the bad config counts as broken, and returns its name.
func (s *site) broken() string {
	s.t.Helper()
	var name string
	s.eventually(func() error {
		for _, pod := range s.stage.Pods(s.namespace) {
			if s.configOf(pod) == "bad" && time.Since(pod.CreationTimestamp.Time) > workload.UnreadyTime+2*time.Second {
				name = pod.Name
				return nil
			}
		}
		return fmt.Errorf("no pod has had the bad config for %s", workload.UnreadyTime)
	})
	return name
}

// TestAPodThatBlocksAnUndoIsNamed: Kubernetes keeps the broken pod of a StatefulSet with OrderedReady after an undo. The plugin
// and an Event name it and the command that deletes it, and after that command the undo is done.
func TestAPodThatBlocksAnUndoIsNamed(t *testing.T) {
	t.Parallel()
	s, ref, _ := failing(t, "statefulset", "note: mine")
	command := fmt.Sprintf("kubectl delete pod -n %s %s", s.namespace, s.broken())
	if _, errOut, _ := s.plugin("status", ref); strings.Contains(errOut, command) {
		t.Errorf("before the undo nothing waits for the pod, and status says:\n%s", errOut)
	}
	s.does([]string{"rollout", "undo", ref}, "rolled back to revision 2", command)
	s.event("StatefulSet/web", rollout.ReasonBlocked, command)
	s.eventually(func() error {
		out, errOut, _ := s.plugin("status", ref) // It ends with 2 after an undo.
		if !strings.Contains(out, command) {
			return fmt.Errorf("status does not name the command %q:\n%s%s", command, out, errOut)
		}
		return nil
	})
	s.does([]string{"rollout", "undo", ref, "--to-revision=4"}, "skipped rollback", command)
	s.kubectl(strings.Fields(command)[1:]...)
	s.reached(ref, foo("one"))
	if out, _, _ := s.plugin("status", ref); strings.Contains(out, "delete pod") {
		t.Errorf("after the undo is done, status says:\n%s", out)
	}
}

// TestAPodThatKubernetesReplacesIsNotNamed: in a StatefulSet with Parallel an undo replaces the broken pod.
func TestAPodThatKubernetesReplacesIsNotNamed(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "statefulset/web"
	s.failWith("bad")
	s.story(ref, manifest("statefulset", "web", "  replicas: 2\n", "  replicas: 2\n  podManagementPolicy: Parallel\n"), "one")
	s.haveHeardOfReady()
	s.edit("foo", "bad")
	s.broken()
	out := s.does([]string{"rollout", "undo", ref}, "rolled back to revision 2")
	s.reached(ref, foo("one"))
	if strings.Contains(out, "delete pod") {
		t.Errorf("the plugin names a pod that Kubernetes replaces:\n%s", out)
	}
	list, err := s.client.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	for _, e := range list.Items {
		if e.Reason == rollout.ReasonBlocked && e.Type == corev1.EventTypeWarning {
			t.Errorf("an Event names a pod that Kubernetes replaces: %s", e.Message)
		}
	}
}
