package rollout

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// get returns what the controller answers at an address, and wants it to be well.
func (s *site) get(address, path string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	expect.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(request)
	expect.NoError(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	expect.NoError(s.t, err)
	if answer.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return string(body)
}

// TestMetricsTellTheStory: the founding document's story, and an opt-out, as the metrics count it. Prometheus' own tool finds
// nothing wrong with them, and the controller is healthy and ready.
func TestMetricsTellTheStory(t *testing.T) {
	t.Parallel()
	address := fixture.FreeAddress(t)
	s := newSite(t, "--http-endpoint="+address)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	first := s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.putConfigMap("foo", "two")
	s.rolledOut("web", map[string]string{"configmap/foo": "two"})
	s.apply(deployment("web"))
	s.event("Deployment/web", rollout.ReasonRepaired, "")
	// The revision before this one is what was applied, with the same config.
	s.kubectl("rollout", "undo", "deployment/web", "--to-revision="+s.numberOf(first["configmap/foo"]))
	s.event("Deployment/web", rollout.ReasonUndone, first["configmap/foo"])
	s.kubectl("annotate", "deployment/web", "liveconfig.internal/triggered-by-")
	s.event("Deployment/web", rollout.ReasonOptedOut, "")
	want := map[string]string{
		`rollouts_total{result="rolled_out"}`: "2", `rollouts_total{result="repaired"}`: "1",
		`rollouts_total{result="undone"}`: "1", `rollouts_total{result="opted_out"}`: "1",
		`rollouts_total{result="failed"}`: "0", "copies_remade_total": "0", "copies": "2",
		"edit_to_template_seconds_count": "1", `held_back{reason="undone"}`: "0",
	}
	s.eventually(func() error {
		for metric, value := range want {
			if got := s.measured(address, metric); got != value {
				return fmt.Errorf("%s = %s, want %s", metric, got, value)
			}
		}
		return nil
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		s.get(address, path)
	}
	repo, err := environment.Repo()
	expect.NoError(t, err)
	check := exec.CommandContext(t.Context(), filepath.Join(repo, "bin/debian-servers/usr/bin/promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(s.get(address, "/metrics"))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// secretUses is the Deployment web, which has the Secret foo in a volume and a variable.
func secretUses() string {
	return strings.NewReplacer(
		"configmap/foo", "secret/foo", "configMap: {name: foo}", "secret: {secretName: foo}", "image: example.test/main:1",
		"image: example.test/main:1\n        env: [{name: KEY, valueFrom: {secretKeyRef: {name: foo, key: config}}}]",
	).Replace(deployment("web"))
}

// TestNoByteOfASecretIsPrinted: whatever happens to a Secret that triggers, its values are in it and its copies, and neither in
// the log at its longest, nor in Events, metrics, workloads, or the annotations of copies.
func TestNoByteOfASecretIsPrinted(t *testing.T) {
	t.Parallel()
	address := fixture.FreeAddress(t)
	s := newSite(t, "-v=5", "--http-endpoint="+address)
	s.marked("config", "one")
	s.apply(secretUses())
	first := s.secretCopy("one")
	s.marked("config", "two")
	second := s.secretCopy("two")
	s.kubectl("rollout", "undo", "deployment/web")
	s.event("Deployment/web", rollout.ReasonUndone, first.Name)
	s.marked("other", "three") // The key that the variable needs is gone.
	s.event("Deployment/web", rollout.ReasonHeldBack, "has no key")
	s.kubectl("delete", "secret", first.Name, second.Name)
	s.event("Deployment/web", rollout.ReasonCopyGone, first.Name)
	s.marked("config", "four")
	s.secretCopy("four")
	told := map[string]any{"metrics": s.get(address, "/metrics")}
	s.stop()
	log, err := os.ReadFile(s.log)
	expect.NoError(t, err)
	told["log"] = string(log)
	for _, resource := range []string{"events", "configmaps", "deployments", "replicasets", "pods"} {
		told[resource] = s.kubectl("get", resource, "--output=json", "--show-managed-fields")
	}
	list, err := s.client.CoreV1().Secrets(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
	expect.NoError(t, err)
	if len(list.Items) == 0 {
		t.Error("there is no copy to look at")
	}
	for _, made := range list.Items {
		told["copy "+made.Name] = made.ObjectMeta
	}
	for name, what := range told {
		text, err := json.Marshal(what)
		expect.NoError(t, err)
		if err := environment.Leak(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// marked gives the Secret foo one key with a value that is known wherever it turns up.
func (s *site) marked(key, value string) {
	s.t.Helper()
	secrets := s.client.CoreV1().Secrets(s.namespace)
	foo := fixture.Secret("foo", map[string]string{key: environment.Marked(value)})
	found, err := secrets.Get(s.t.Context(), "foo", metav1.GetOptions{})
	if err != nil {
		_, err = secrets.Create(s.t.Context(), foo, metav1.CreateOptions{})
	} else {
		found.Data, found.StringData = nil, foo.StringData
		_, err = secrets.Update(s.t.Context(), found, metav1.UpdateOptions{})
	}
	expect.NoError(s.t, err)
}

// secretCopy waits until web mounts the copy that has a value, and returns that.
func (s *site) secretCopy(value string) *corev1.Secret {
	s.t.Helper()
	var made *corev1.Secret
	s.eventually(func() (err error) {
		name := s.deployment("web").Spec.Template.Spec.Volumes[0].Secret.SecretName
		made, err = s.client.CoreV1().Secrets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := environment.Unmarked(string(made.Data["config"])); name == "foo" || got != value {
			return fmt.Errorf("web mounts %s, want the copy with %q", name, value)
		}
		return nil
	})
	s.kubectl("rollout", "status", "deployment/web", "--timeout="+soon.String())
	return made
}
