package release

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

var web = map[string]string{"configMap": "web"}

// TestGoodEdit reaches one pod, half of them, and all.
func TestGoodEdit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create("web", "{steps: [1, 50%], pause: 2s}", map[string]string{"a": "1"})
	s.replicas(6, web)
	s.edit("web", map[string]string{"a": "2"})
	s.wantState(release.Progressing, 1)
	s.wantValues("a", map[string]int{"1": 5, "2": 1})
	s.wantState(release.Progressing, 2)
	s.wantValues("a", map[string]int{"1": 3, "2": 3})
	s.run("web-new", web) // It gets the side that the rule gives it.
	s.wantState("", 0)
	s.wantValues("a", map[string]int{"2": 7})
	s.wantEvent("web", releases.ReasonExposed, "Step 1 of 2 (1 pod): the edit is shown to 1 of 6 pods.")
	s.wantEvent("web", releases.ReasonPromoted, "All pods get the edit.")
}

// TestAnEditOfASelectedObject reaches few pods first, also where pods find the object by its labels.
func TestAnEditOfASelectedObject(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create("web", "{steps: [1], pause: 2s}", map[string]string{"a": "1"})
	label := []byte(`{"metadata": {"labels": {"dashboard": "1"}}}`)
	for _, name := range []string{"web", "web.stable"} { // Somebody may label the copy, too.
		_, err := s.ConfigMaps().Patch(t.Context(), name, types.MergePatchType, label, metav1.PatchOptions{})
		expect.NoError(t, err)
	}
	s.replicas(4, map[string]string{"sources": "[{configMap: {labelSelector: {matchLabels: {dashboard: '1'}}}}]"})
	s.wantValues("a", map[string]int{"1": 4})
	s.edit("web", map[string]string{"a": "2"})
	s.wantState(release.Progressing, 1)
	s.wantValues("a", map[string]int{"1": 3, "2": 1})
	s.wantState("", 0)
	s.wantValues("a", map[string]int{"2": 4})
	s.edit("web", map[string]string{"a": "3"})
	s.wantValues("a", map[string]int{"2": 3, "3": 1})
	s.setStatus(s.shown("3")[0].Name, corev1.ConditionFalse, 0)
	s.wantState(release.Reverted, 1)
	s.wantValues("a", map[string]int{"2": 4})
}

// TestBadEdit is taken back, or stays with the pods that have it, when one of these pods fails.
func TestBadEdit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		onFailure string
		fail      func(s *site, pod string)
		state     release.State
		values    map[string]int
		reason    string
	}{
		"not Ready": {
			"revert", func(s *site, pod string) { s.setStatus(pod, corev1.ConditionFalse, 0) },
			release.Reverted,
			map[string]int{"1": 4},
			"is no longer Ready",
		},
		"restarted": {
			"revert", func(s *site, pod string) { s.setStatus(pod, corev1.ConditionTrue, 1) },
			release.Reverted,
			map[string]int{"1": 4},
			"has restarted (1 restarts)",
		},
		"frozen": {
			"freeze", func(s *site, pod string) { s.setStatus(pod, corev1.ConditionFalse, 0) },
			release.Frozen,
			map[string]int{"1": 3, "2": 1},
			"is no longer Ready",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.create("web", "{steps: [1], pause: 1h, onFailure: "+tc.onFailure+"}", map[string]string{"a": "1"})
			s.replicas(4, web)
			s.edit("web", map[string]string{"a": "2"})
			s.wantValues("a", map[string]int{"1": 3, "2": 1})
			pod := s.shown("2")[0].Name
			tc.fail(s, pod)
			e := s.wantState(tc.state, 1)
			if want := "pod " + pod + " has the edit and " + tc.reason; e.Reason != want {
				t.Errorf("the reason is %q, want %q", e.Reason, want)
			}
			s.wantValues("a", tc.values)
			s.wantEvent("web", map[release.State]string{release.Reverted: releases.ReasonReverted, release.Frozen: releases.ReasonFrozen}[tc.state], e.Reason)
			s.kill()
			s.start()
			s.run("web-new", web)
			s.edit("web", map[string]string{"a": "3"}) // A newer edit ends it.
			s.wantState(release.Progressing, 1)
			s.wantValues("a", map[string]int{"1": 4, "3": 1})
			s.edit("web", map[string]string{"a": "1"}) // The owner takes it back.
			s.wantState("", 0)
			s.wantValues("a", map[string]int{"1": 5})
		})
	}
}

// TestARuleIsBroken: no pod gets the edit, and the Event names the rule.
func TestARuleIsBroken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const annotation = `
steps: []
validate:
  - {key: app.yaml, schemaFrom: {key: app.schema.json}}
  - {key: app.yaml, cel: "self.max <= 1000", message: "max is at most 1000"}
`
	const schema = `{"required": ["max"], "properties": {"max": {"type": "integer"}}}`
	content := func(text string) map[string]string {
		return map[string]string{"app.yaml": text + "# ", "app.schema.json": schema + " ", "a": text[len(text)-2 : len(text)-1]}
	}
	_, err := s.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: annotation}},
		Data:       content("max: 1\n"),
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	s.eventually(func() error {
		_, err := s.ConfigMaps().Get(t.Context(), "web.stable", metav1.GetOptions{})
		return err
	})
	set := func(text string) {
		t.Helper()
		m, err := s.ConfigMaps().Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		m.Data = content(text)
		_, err = s.ConfigMaps().Update(t.Context(), m, metav1.UpdateOptions{})
		expect.NoError(t, err)
	}
	for text, want := range map[string]string{
		"max: x2\n":   "configmap/web: validate[0]: key app.yaml, line 1: max: got string, want integer",
		"max: 1002\n": "configmap/web: validate[1]: key app.yaml: max is at most 1000",
		"max: [2\n":   "configmap/web: validate[0]: key app.yaml, line ",
	} {
		set(text)
		s.wantEvent("web", releases.ReasonRefused, want)
		s.wantState(release.Refused, 0)
	}
	set("max: 2\n")
	s.wantState("", 0) // No pod uses it.
}

// TestAMistakeInTheAnnotation keeps edits from all pods until it is mended.
func TestAMistakeInTheAnnotation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create("web", "{steps: [1], pause: 1h}", map[string]string{"a": "1"})
	s.replicas(2, web)
	annotate := func(text string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, release.Annotation, text)
		_, err := s.ConfigMaps().Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		expect.NoError(t, err)
	}
	annotate("{step: [1]}")
	s.wantEvent("web", releases.ReasonMistake, "step: unknown field; there are check, evidence, group, onFailure, pause, steps, validate")
	s.edit("web", map[string]string{"a": "2"})
	s.create("other", "{}", map[string]string{"a": "1"}) // So that the controller had the time.
	s.wantValues("a", map[string]int{"1": 2})
	annotate("{steps: [1], pause: 0s}")
	s.wantValues("a", map[string]int{"2": 2})

	_, err := s.ConfigMaps().Patch(t.Context(), "web", types.JSONPatchType, []byte(`[{"op": "remove", "path": "/metadata/annotations"}]`), metav1.PatchOptions{})
	expect.NoError(t, err)
	s.eventually(func() error {
		if _, err := s.ConfigMaps().Get(t.Context(), "web.stable", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("the stable copy of an object that is not released any more is there")
		}
		return nil
	})
	s.edit("web", map[string]string{"a": "3"})
	s.wantValues("a", map[string]int{"3": 2})
}

// TestSecretsAreReleased with their type, which decides about the keys that they need.
func TestSecretsAreReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secrets := s.Cluster.Client().CoreV1().Secrets(s.Namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login", Annotations: map[string]string{release.Annotation: "{steps: [1], pause: 1h, validate: [{key: j, format: json}]}"}},
		Type:       corev1.SecretTypeBasicAuth, StringData: kit.Marked(map[string]string{"username": "1"}),
	}
	secret.StringData["j"] = "{}"
	secret, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	expect.NoError(t, err)
	s.eventually(func() error {
		c, err := secrets.Get(t.Context(), "login.stable", metav1.GetOptions{})
		if err == nil && c.Type != corev1.SecretTypeBasicAuth {
			err = fmt.Errorf("the copy has the type %s", c.Type)
		}
		return err
	})
	s.replicas(2, map[string]string{"secret": "login"})
	secret.StringData = kit.Marked(map[string]string{"username": "2"})
	secret, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	expect.NoError(t, err)
	s.wantValues("username", map[string]int{"1": 1, "2": 1})
	secret.StringData = kit.Marked(map[string]string{"j": "{"})
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	expect.NoError(t, err)
	s.wantEvent("login", releases.ReasonRefused, "secret/login: validate[0]: key j, line 1: is not json")
	s.wantValues("username", map[string]int{"1": 2})
}

// TestTogether: a pod has the edits of both objects of a group, or of none.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const annotation = "{group: app, steps: [2, 50%], pause: 500ms}"
	s.create("one", annotation, map[string]string{"a": "1"})
	s.create("two", annotation, map[string]string{"b": "1"})
	s.replicas(6, map[string]string{"sources": "[{configMap: {name: one}}, {configMap: {name: two}}]"})
	isMixed := s.watchForMixes("a", "b", 4*time.Second)
	s.edit("one", map[string]string{"a": "2"})
	s.edit("two", map[string]string{"b": "2"})
	s.wantValues("a", map[string]int{"1": 4, "2": 2})
	s.wantValues("b", map[string]int{"1": 4, "2": 2})
	s.wantValues("a", map[string]int{"2": 6})
	s.wantValues("b", map[string]int{"2": 6})
	isMixed()
	one, two := s.partners("one"), s.partners("two")
	if id := one["configmap/two"]; id == "" || id != two["configmap/one"] {
		t.Errorf("the copies say of each other that they were promoted by %v and %v, want by one release", one, two)
	}
}

// TestKilledAtRandom: a controller that is killed again and again brings an edit to its end, and no pod ever
// has one that was not exposed to it.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create("web", "{steps: [1, 2, 3, 4], pause: 300ms}", map[string]string{"a": "1"})
	s.replicas(6, web)
	for _, value := range []string{"2", "3", "4"} {
		s.edit("web", map[string]string{"a": value})
		for i := range 6 {
			<-time.After(time.Duration(50+70*i) * time.Millisecond)
			s.kill()
			s.start()
		}
		s.wantState("", 0)
		s.wantValues("a", map[string]int{value: 6})
	}
}

// TestPodsThatSharedFilesBefore the object was released have an edit together, in the step that is for so many pods: it would
// prove nothing to show it to one of them.
func TestPodsThatSharedFilesBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.CreateConfigMap("web", map[string]string{"a": "1"})
	s.replicas(3, web)
	<-time.After(1100 * time.Millisecond) // The API server knows in which second an object was created.
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "{steps: [1, 100%%], pause: 3s}"}}}`, release.Annotation)
	_, err := s.ConfigMaps().Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	expect.NoError(t, err)
	s.wantState("", 0)
	s.wantEvent("web", releases.ReasonShared, "an edit reaches up to 3 pods at a time")
	<-time.After(1100 * time.Millisecond)
	s.run("web-new-0", web)
	s.run("web-new-1", web)
	s.edit("web", map[string]string{"a": "2"})
	s.wantState(release.Progressing, 1)
	s.wantValues("a", map[string]int{"1": 4, "2": 1})
	if name := s.shown("2")[0].Name; !strings.HasPrefix(name, "web-new-") {
		t.Errorf("the edit reaches pod %s first, want one that has its own files", name)
	}
	s.wantState(release.Progressing, 2)
	s.wantValues("a", map[string]int{"2": 5})
}
