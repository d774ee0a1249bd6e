package rollout

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// key writes the Secret key.
func (s *site) key(value string) {
	s.t.Helper()
	s.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {config: %q}\n", value))
}

// contentOf returns what an object holds, by key. It is nil for one that does not exist.
func (s *site) contentOf(kind api.Kind, name string) map[string]string {
	s.t.Helper()
	content := map[string]string{}
	if kind == api.Secret {
		o, err := s.client.CoreV1().Secrets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		for key, value := range o.Data {
			content[key] = string(value)
		}
		return content
	}
	o, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	maps.Copy(content, o.Data)
	for key, value := range o.BinaryData {
		content[key] = string(value)
	}
	return content
}

// follows waits until a Deployment has copies of the sources as they are now, of no others, and all its pods run with
// them. A source that does not exist has none. It returns the config.
func (s *site) follows(name string, sources ...string) trigger.Config {
	s.t.Helper()
	var config trigger.Config
	s.eventually(func() (err error) {
		config, err = trigger.ParseConfig(s.deployment(name).Spec.Template.Annotations[trigger.ConfigAnnotation])
		if err != nil {
			return err
		}
		var have []string
		for _, o := range config.Objects() {
			have = append(have, o.String())
			if diff := cmp.Diff(s.contentOf(o.Kind, o.Name), s.contentOf(o.Kind, config[o])); diff != "" {
				return fmt.Errorf("%s and its copy %q differ (-source +copy):\n%.2000s", o, config[o], diff)
			}
		}
		if slices.Sort(sources); !slices.Equal(have, sources) {
			return fmt.Errorf("%s has copies of %v, want %v", name, have, sources)
		}
		return nil
	})
	s.settled(name)
	return config
}

// settled waits until a Deployment's rollout is done.
func (s *site) settled(name string) {
	s.t.Helper()
	s.kubectl("rollout", "status", "deployment/"+name, "--timeout="+soon.String())
}

// everyUse is a manifest of a Deployment that uses two objects, and others, in every way that there is.
func everyUse(foo, key string) string {
	path := filepath.Join("testdata", "every-use.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err) // It is a part of the test.
	}
	return strings.NewReplacer("%FOO%", foo, "%KEY%", key).Replace(string(text))
}

// wouldBe returns the template that the API server makes of a Deployment's manifest.
func (s *site) wouldBe(manifest string) corev1.PodTemplateSpec {
	s.t.Helper()
	var d appsv1.Deployment
	expect.NoError(s.t, yaml.UnmarshalStrict([]byte(manifest), &d))
	d.Name = "would-be"
	made, err := s.client.AppsV1().Deployments(s.namespace).
		Create(s.t.Context(), &d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	expect.NoError(s.t, err)
	return made.Spec.Template
}

// TestEveryUse has one edit of two sources point each use of them to copies and nothing else, in one revision. An undo
// brings the names of before back, and opting out the template that was there first.
func TestEveryUse(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--secret-identity=driver", "--quiet-period=5s") // Two edits of kubectl are one rollout.
	s.putConfigMap("foo", "one")
	s.putConfigMap("bar", "other")
	s.key("one")
	s.apply(everyUse("foo", "key"))
	s.settled("web")
	plain := s.deployment("web").Spec.Template
	foo, key := api.Ref{Kind: api.ConfigMap, Name: "foo"}, api.Ref{Kind: api.Secret, Name: "key"}
	is := func(when string, config trigger.Config, revisions int) {
		t.Helper()
		want := s.wouldBe(everyUse(config[foo], config[key]))
		want.Annotations[trigger.ConfigAnnotation] = config.String()
		if diff := cmp.Diff(want, s.deployment("web").Spec.Template); diff != "" {
			t.Fatalf("%s the template is (-want +got):\n%s", when, diff)
		}
		if got := len(s.replicaSets()); got != revisions {
			t.Errorf("%s there are %d ReplicaSets, want %d", when, got, revisions)
		}
		s.readBy("web", config[foo], config[key])
	}

	s.kubectl("annotate", "deployment/web", trigger.TriggeredBy+"=configmap/foo, secret/key")
	first := s.follows("web", "configmap/foo", "secret/key")
	is("after it opted in", first, 2)

	s.key("two") // By a process, which takes longer.
	s.putConfigMap("foo", "two")
	second := s.follows("web", "configmap/foo", "secret/key")
	if first[foo] == second[foo] || first[key] == second[key] {
		t.Errorf("the edit did not change the copies: %v, and %v before", second, first)
	}
	is("after the edit", second, 3)

	s.kubectl("rollout", "undo", "deployment/web")
	s.event("Deployment/web", rollout.ReasonUndone, first[foo])
	s.settled("web")
	is("after the undo", first, 3)

	s.kubectl("annotate", "deployment/web", trigger.TriggeredBy+"-")
	s.event("Deployment/web", rollout.ReasonOptedOut, "")
	s.settled("web")
	d := s.deployment("web")
	if diff := cmp.Diff(plain, d.Spec.Template); diff != "" {
		t.Errorf("after it opted out the template is (-want +got):\n%s", diff)
	}
	if got := len(s.replicaSets()); got != 3 {
		t.Errorf("after it opted out there are %d ReplicaSets, want 3", got)
	}
	if d.Labels[trigger.RolloutLabel] != "" || d.Annotations[trigger.UndoneAnnotation] != "" {
		t.Errorf("after it opted out it has the labels %v and annotations %v", d.Labels, d.Annotations)
	}
}

// readBy checks that the pods of a Deployment that are ready have read these objects, and of their kinds no others but bar.
func (s *site) readBy(name, configMap, secret string) {
	s.t.Helper()
	want := []string{"ConfigMap " + configMap, "ConfigMap bar", "Secret " + secret}
	slices.Sort(want)
	err := s.stage.Await(s.t.Context(), s.namespace, func(pods []*corev1.Pod) bool {
		for _, pod := range pods {
			var got []string
			for _, source := range s.stage.Config(pod) {
				if source.Ref.Namespace == s.namespace {
					got = append(got, string(source.Ref.Kind)+" "+source.Ref.Name)
				}
			}
			slices.Sort(got)
			if pod.Labels["app"] == name && !slices.Equal(got, want) {
				return false
			}
		}
		return len(pods) > 0
	})
	if err != nil {
		s.t.Fatalf("the pods of %s have not read %v alone: %v", name, want, err)
	}
}

// TestTriggersChange has the template follow the list of triggers: those that are added, removed, and renamed, by either
// name of the annotation, and one that opts out and in again.
func TestTriggersChange(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.putConfigMap("bar", "one")
	s.apply(strings.Replace(deployment("web"), "        configMap: {name: foo}\n",
		"        projected: {sources: [{configMap: {name: foo}}, {configMap: {name: bar, optional: true}}]}\n", 1))
	uses := func(step string, config trigger.Config, revisions int) {
		t.Helper()
		var got []string
		for _, p := range s.deployment("web").Spec.Template.Spec.Volumes[0].Projected.Sources {
			got = append(got, p.ConfigMap.Name)
		}
		want := []string{"foo", "bar"}
		for i, name := range want {
			if copied := config[api.Ref{Kind: api.ConfigMap, Name: name}]; copied != "" {
				want[i] = copied
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s the template uses %v, want %v", step, got, want)
		}
		if got := s.madeSince(revisions); got != "" {
			t.Errorf("%s: %s", step, got)
		}
	}
	list := func(args ...string) {
		s.kubectl(append([]string{"annotate", "--overwrite", "deployment/web"}, args...)...)
	}

	uses("with foo", s.follows("web", "configmap/foo"), 2)
	list(trigger.TriggeredBy + "=configmap/foo,cm/bar")
	uses("with bar too", s.follows("web", "configmap/bar", "configmap/foo"), 3)
	list(trigger.TriggeredBy + "=configmap/bar")
	uses("without foo", s.follows("web", "configmap/bar"), 4)
	s.putConfigMap("foo", "two") // Nothing comes of it, and the next one shows that.
	s.putConfigMap("bar", "two")
	uses("after an edit of both", s.follows("web", "configmap/bar"), 5)
	list(trigger.TriggeredBy+"-", trigger.TriggeredByFirst+"=configmap/foo")
	uses("renamed by the first name of the annotation", s.follows("web", "configmap/foo"), 6)

	list(trigger.TriggeredByFirst + "-")
	s.event("Deployment/web", rollout.ReasonOptedOut, "")
	uses("after it opted out", nil, 6) // The template is that of the beginning.
	s.putConfigMap("foo", "three")
	list(trigger.TriggeredByFirst + "=configmap/foo")
	uses("when it is in again", s.follows("web", "configmap/foo"), 7)
}

// madeSince returns what is wrong if there are not so many ReplicaSets, of which at most one is without a config.
func (s *site) madeSince(want int) string {
	s.t.Helper()
	sets := s.replicaSets()
	plain := 0
	for _, set := range sets {
		if set.Spec.Template.Annotations[trigger.ConfigAnnotation] == "" {
			plain++
		}
	}
	if plain == 0 {
		want-- // The controller was faster than Kubernetes' own.
	}
	if len(sets) != want {
		return fmt.Sprintf("there are %d ReplicaSets, want %d", len(sets), want)
	}
	return ""
}
