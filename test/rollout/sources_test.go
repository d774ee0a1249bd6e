package rollout

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// rolledOn waits until the rollout of web is done, and checks how many revisions it has made since.
func (s *site) rolledOn(before past, more int) {
	s.t.Helper()
	s.settled("web")
	s.wantRevisions("deployment/web", before, more)
}

// TestDeletedSource has pods keep their copy when its source is deleted, and reports that. Made again as it was the source
// changes nothing, and as another it is rolled out.
func TestDeletedSource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	s.follows("web", "configmap/foo")
	before := s.past("deployment/web")
	s.unmoved("deployment/web", "deleting the source", func() {
		s.kubectl("delete", "configmap", "foo")
		s.event("Deployment/web", rollout.ReasonHeldBack, "configmap/foo does not exist, and spec.volumes[0].configMap.name")
	})
	s.unmoved("deployment/web", "making it again as it was", func() { s.putConfigMap("foo", "one") })
	s.kubectl("delete", "configmap", "foo")
	s.putConfigMap("foo", "two")
	s.follows("web", "configmap/foo")
	s.rolledOn(before, 1)
}

// TestOptionalSource has a source that need not exist rolled out when it comes, and the same workload without it when it
// goes.
//
// Fault 33.
func TestOptionalSource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apply(manifest("deployment", "web", "configMap: {name: foo}", "configMap: {name: foo, optional: true}"))
	without := `{"configmap/foo":""}`
	if got := s.follows("web", "configmap/foo").String(); got != without {
		t.Fatalf("without the source the config is %s, want %s", got, without)
	}
	before := s.past("deployment/web")
	s.putConfigMap("foo", "one")
	s.eventually(func() error { return s.namesNot("web", "foo") })
	s.follows("web", "configmap/foo")
	s.rolledOn(before, 1)

	s.kubectl("delete", "configmap", "foo")
	s.eventually(func() error { return s.names("web", "foo") })
	s.rolledOn(before, 1)
	if got := s.deployment("web").Spec.Template.Annotations[trigger.ConfigAnnotation]; got != without {
		t.Errorf("when the source is gone the config is %s, want %s", got, without)
	}
	s.event("Deployment/web", rollout.ReasonRolledOut, "configmap/foo, which does not exist")
}

// names returns an error if the volume of a Deployment is not of this ConfigMap; namesNot if it is.
func (s *site) names(name, want string) error {
	s.t.Helper()
	if got := s.deployment(name).Spec.Template.Spec.Volumes[0].ConfigMap.Name; got != want {
		return &wrongNameError{got, want}
	}
	return nil
}

func (s *site) namesNot(name, wrong string) error {
	s.t.Helper()
	if s.names(name, wrong) == nil {
		return &wrongNameError{wrong, "another"}
	}
	return nil
}

type wrongNameError struct{ got, want string }

func (e *wrongNameError) Error() string { return "the volume is of " + e.got + ", want " + e.want }

// TestMissingSourceAndKey has a change wait for what pods could not start without: at first the object, then a key. A key
// that is optional is not waited for.
//
// Fault 33.
func TestMissingSourceAndKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apply(manifest("deployment", "web", "image: example.test/main:1", `image: example.test/main:1
        env:
        - {name: A, valueFrom: {configMapKeyRef: {name: foo, key: needed}}}
        - {name: B, valueFrom: {configMapKeyRef: {name: foo, key: other, optional: true}}}`))
	s.event("Deployment/web", rollout.ReasonHeldBack, "configmap/foo does not exist")
	s.eventually(func() error { return s.hasRevisions("deployment/web", 1) })
	before := s.past("deployment/web")
	s.putConfigMap("foo", "one")
	s.event("Deployment/web", rollout.ReasonHeldBack, `configmap/foo has no key "needed", and spec.containers[0].env[0].valueFrom.configMapKeyRef.name`)
	if got := s.past("deployment/web").Generation; got != before.Generation {
		t.Errorf("the generation is %d before there is anything to roll out, want %d", got, before.Generation)
	}
	add := func(value string) {
		s.kubectl("patch", "configmap", "foo", "--patch", `{"data": {"needed": `+value+`}}`)
	}
	add(`"x"`)
	s.follows("web", "configmap/foo")
	s.rolledOn(before, 1)
	s.unmoved("deployment/web", "taking the key away", func() {
		add("null")
		s.edit("foo", "two")
	})
	add(`"y"`)
	s.follows("web", "configmap/foo")
	s.rolledOn(before, 2)
}

// badLists are values of the annotation that name nothing that can trigger, and the text of the Event about each.
// The tests of the package trigger have more of them.
func badLists() map[string]string {
	return map[string]string{
		"":                              "write configmap/NAME, secret/NAME, or several with commas between them",
		"configmap/foo,deployment/x":    "write configmap/NAME or secret/NAME",
		"configmap/Füße":                "names no object",
		`{"configmap": "foo"}`:          "names no kind",
		"configmap/foo\nsecret/bar":     "names no object",
		"\u202econfigmap/foo":           "cannot trigger",
		strings.Repeat("x", 10<<10):     "names no kind",
		strings.Repeat("a b/c,", 200):   "cannot trigger",
		strings.Repeat("a b/c,", 1700):  "has 1701 entries, more than 256",
		strings.Repeat("configmap/", 9): "names no object",
	}
}

// TestBadLists has lists of triggers that cannot be read lead to an Event with the command, and to nothing else.
//
// Fault 36.
func TestBadLists(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	about := map[string]string{}
	for list, text := range badLists() {
		d := s.bare(list)
		about[d] = text
	}
	for name, text := range about {
		s.event("Deployment/"+name, rollout.ReasonHeldBack, text)
		if got := len(s.events("Deployment/" + name)); got != 1 {
			t.Errorf("there are %d Events about one bad list, want 1", got)
		}
	}
	s.beat() // It lives.
	for name := range about {
		if d := s.deployment(name); d.Generation != 1 || d.Labels[trigger.RolloutLabel] != "" || d.Spec.Template.Annotations != nil {
			t.Errorf("the Deployment of the list %.50q was written", d.Annotations[trigger.TriggeredBy])
		}
	}
}

// brokenConfigs are values that somebody may give the annotation of the template that names its copies. Those that
// cannot be read are to be seen to by people, and Events show how.
func brokenConfigs() map[string]string {
	return map[string]string{
		"garbage":      `"foo-0123456789"`,
		"other":        `"[]"`,
		"empty-text":   `""`,
		"no-name":      `"{\"configmap/foo\": \"Not a name\"}"`,
		"no-kind":      `"{\"foo\": \"foo-0123456789\"}"`,
		"removed":      `null`,
		"nothing":      `"{}"`,
		"another-copy": `"{\"configmap/foo\": \"foo-0123456789\"}"`,
	}
}

// TestBrokenConfig has a template whose config somebody has broken stay as it is, and the next edit reach the pods: at once
// where the config can be read, and else when it was removed.
//
// Fault 36.
func TestBrokenConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	var one string
	for name := range brokenConfigs() {
		s.apply(manifest("deployment", name, "replicas: 2", "replicas: 0"))
		one = s.follows(name, "configmap/foo")[fooMap]
	}
	write := func(name, value string) {
		s.kubectl("patch", "deployment", name, "--patch",
			`{"spec": {"template": {"metadata": {"annotations": {"`+trigger.ConfigAnnotation+`": `+value+`}}}}}`)
	}
	for name, value := range brokenConfigs() {
		write(name, value)
	}
	s.beat()
	s.edit("foo", "two")
	for name := range brokenConfigs() {
		switch name {
		case "removed", "nothing", "another-copy":
		default:
			s.event("Deployment/"+name, rollout.ReasonHeldBack, "remove it")
			if err := s.names(name, one); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			write(name, "null")
		}
		s.follows(name, "configmap/foo")
		s.eventually(func() error { return s.names(name, s.follows(name, "configmap/foo")[fooMap]) })
	}
}

// bare makes a Deployment without pods that has a list of triggers and returns its name.
func (s *site) bare(list string) string {
	s.t.Helper()
	replicas := int32(0)
	made, err := s.client.AppsV1().Deployments(s.namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bare-", Annotations: map[string]string{trigger.TriggeredBy: list}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bare"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "bare"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}}},
			},
		},
	}, metav1.CreateOptions{})
	expect.NoError(s.t, err)
	return made.Name
}

// events returns the controller's Events about something, such as Deployment/web.
func (s *site) events(about string) []corev1.Event {
	s.t.Helper()
	list, err := s.client.CoreV1().Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	expect.NoError(s.t, err)
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.Source.Component != "liveconfig-controller" || e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name != about
	})
}

// TestATypoInATrigger names a ConfigMap that does not exist and that the template does not use. Nothing is rolled out, and a Warning
// names the one that was meant and what to type.
//
// Fault 36.
func TestATypoInATrigger(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(manifest("deployment", "web", "configmap/foo", "configmap/fooo"))
	s.event("Deployment/web", rollout.ReasonHeldBack, "configmap/fooo triggers rollouts, but does not exist, and the pod template does not use it; "+
		"did you mean configmap/foo? kubectl annotate --overwrite deployment/web liveconfig.internal/triggered-by=configmap/foo")
	for _, e := range s.events("Deployment/web") {
		if e.Type != corev1.EventTypeWarning {
			t.Errorf("there is a %s Event: %s", e.Type, e.Message)
		}
	}
	if got := s.deployment("web"); got.Generation != 1 {
		t.Errorf("the Deployment was written: it is of generation %d", got.Generation)
	}
	s.kubectl("annotate", "--overwrite", "deployment/web", "liveconfig.internal/triggered-by=configmap/foo")
	s.rolledOut("web", map[string]string{"configmap/foo": "one"})
}
