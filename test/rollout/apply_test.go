package rollout

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// applied is a site whose Deployment web was rolled out with the second version of foo, and what shall stay of that.
type applied struct {
	*site
	copies map[string]string
	label  string
}

func newApplied(t *testing.T, flags ...string) applied {
	t.Helper()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"), flags...)
	s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.putConfigMap("foo", "two")
	a := applied{site: s, copies: s.rolledOut("web", map[string]string{"configmap/foo": "two"})}
	a.label = s.deployment("web").Labels[trigger.RolloutLabel]
	return a
}

// volumeOf returns the name of what the volume of web mounts.
func (s *site) volumeOf() string {
	s.t.Helper()
	return s.deployment("web").Spec.Template.Spec.Volumes[0].ConfigMap.Name
}

// holds waits until the template mounts the copy, and wants the label and the number of copies to be what they were.
func (a applied) holds() {
	a.t.Helper()
	a.eventually(func() error {
		if got, want := a.volumeOf(), a.copies["configmap/foo"]; got != want {
			return fmt.Errorf("the template mounts %s, want %s", got, want)
		}
		return nil
	})
	if got := a.deployment("web").Labels[trigger.RolloutLabel]; got != a.label {
		a.t.Errorf("label = %q, want %q as before", got, a.label)
	}
	made, err := a.client.CoreV1().ConfigMaps(a.namespace).List(a.t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
	expect.NoError(a.t, err)
	if len(made.Items) != 2 {
		a.t.Errorf("there are %d copies, want one for each version of foo", len(made.Items))
	}
}

// podsSince returns how many pods have been made since a moment.
func (s *site) podsSince(moment time.Time) int {
	made := 0
	for _, e := range s.stage.Journal(s.namespace).Since(moment) {
		if e.What == fakenodes.Created {
			made++
		}
	}
	return made
}

// TestLoopOfAppliesEndsWithTheCopy is a tool that applies an unchanged manifest again and again. The template names the copy
// soon after each, and all those applies have one revision together.
//
// Fault 33.
func TestLoopOfAppliesEndsWithTheCopy(t *testing.T) {
	t.Parallel()
	const times = 20
	tests := map[string][]string{
		"client-side":                  nil,
		"by the API server with force": serverSide("tool", "--force-conflicts"),
	}
	for name, flags := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApplied(t, flags...)
			before, since := len(a.replicaSets()), time.Now()
			for range times {
				a.apply(deployment("web"), flags...)
				a.holds()
			}
			a.kubectl("rollout", "status", "deployment/web", "--timeout="+soon.String())
			if got := len(a.replicaSets()) - before; got > 1 {
				t.Errorf("%d applies made %d revisions, want one at most", times, got)
			}
			t.Logf("%d applies made %d pods of a Deployment of 2", times, a.podsSince(since))
			a.putConfigMap("foo", "three")
			a.rolledOut("web", map[string]string{"configmap/foo": "three"})
		})
	}
}

// TestDiffShowsNamesOnly: what kubectl and tools like it show of a Deployment that was rolled out is the rewritten name.
func TestDiffShowsNamesOnly(t *testing.T) {
	t.Parallel()
	a := newApplied(t)
	path := filepath.Join(t.TempDir(), "web.yaml")
	a.write(path, deployment("web"))
	out, err := a.c.Kubectl(t.Context(), "--namespace="+a.namespace, "diff", "--filename="+path)
	if err == nil {
		t.Fatal("kubectl diff shows nothing")
	}
	var got []string
	for line := range strings.Lines(out) {
		if regexp.MustCompile(`^[-+] `).MatchString(line) && !strings.Contains(line, " generation: ") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{"- name: " + a.copies["configmap/foo"], "+ name: foo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubectl diff (-want +got):\n%s\nit printed:\n%s", diff, out)
	}
}

// TestHelmUpgrade: the patch that Helm makes of two manifests and what there is changes what it should, and the copy stays.
func TestHelmUpgrade(t *testing.T) {
	t.Parallel()
	a := newApplied(t)
	for _, image := range []string{"example.test/main:1", "example.test/main:2"} {
		a.upgrade(deployment("web"), strings.ReplaceAll(deployment("web"), "example.test/main:1", image))
		a.holds()
		a.kubectl("rollout", "status", "deployment/web", "--timeout="+soon.String())
		if got := a.deployment("web").Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("image = %q, want %q", got, image)
		}
	}
}

// upgrade patches web by what is between two manifests and what there is.
func (s *site) upgrade(old, manifest string) {
	s.t.Helper()
	current, err := json.Marshal(s.deployment("web"))
	expect.NoError(s.t, err)
	original, err := yaml.YAMLToJSON([]byte(old))
	expect.NoError(s.t, err)
	modified, err := yaml.YAMLToJSON([]byte(manifest))
	expect.NoError(s.t, err)
	schema, err := strategicpatch.NewPatchMetaFromStruct(appsv1.Deployment{})
	expect.NoError(s.t, err)
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, schema, true)
	expect.NoError(s.t, err)
	_, err = s.client.AppsV1().Deployments(s.namespace).
		Patch(s.t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
	if err != nil {
		s.t.Fatalf("patch %s: %v", patch, err)
	}
}

// TestReplace: a manifest that takes the place of all there is, and one that is deleted and made again, end with the copy
// too.
func TestReplace(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"in place":               {"replace"},
		"deleted and made again": {"replace", "--force", "--timeout=60s"},
	}
	for name, command := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApplied(t)
			path := filepath.Join(t.TempDir(), "web.yaml")
			a.write(path, deployment("web"))
			a.kubectl(append(slices.Clone(command), "--filename="+path)...)
			got := a.rolledOut("web", map[string]string{"configmap/foo": "two"})
			if !cmp.Equal(got, a.copies) {
				t.Errorf("copies = %v, want %v", got, a.copies)
			}
			if got := a.volumeOf(); got != a.copies["configmap/foo"] {
				t.Errorf("the template mounts %s", got)
			}
			a.ownedBy(a.copies["configmap/foo"], string(a.newestReplicaSet().UID))
		})
	}
}

// newestReplicaSet returns the ReplicaSet that runs the template of web as it is.
func (s *site) newestReplicaSet() appsv1.ReplicaSet {
	s.t.Helper()
	var found appsv1.ReplicaSet
	d := s.deployment("web")
	for _, r := range s.replicaSets() {
		if metav1.IsControlledBy(&r, d) && r.Annotations["deployment.kubernetes.io/revision"] == d.Annotations["deployment.kubernetes.io/revision"] {
			found = r
		}
	}
	return found
}

// ownedBy waits until a copy has an owner.
func (s *site) ownedBy(name, uid string) {
	s.t.Helper()
	s.eventually(func() error {
		made, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(made.OwnerReferences, func(o metav1.OwnerReference) bool { return string(o.UID) == uid }) {
			return fmt.Errorf("owners of %s = %v, want %s among them", name, made.OwnerReferences, uid)
		}
		return nil
	})
}

// TestRestartByHand: `kubectl rollout restart` is one more revision with the same copy.
func TestRestartByHand(t *testing.T) {
	t.Parallel()
	a := newApplied(t)
	before := len(a.replicaSets())
	a.kubectl("rollout", "restart", "deployment/web")
	a.kubectl("rollout", "status", "deployment/web", "--timeout="+soon.String())
	a.holds()
	if got := len(a.replicaSets()) - before; got != 1 {
		t.Errorf("the restart made %d revisions, want 1", got)
	}
	a.ownedBy(a.copies["configmap/foo"], string(a.newestReplicaSet().UID))
}

// TestTemplateThatNamesAnother: a volume that somebody has pointed to an object that triggers nothing is left alone, also by
// the next edit, of which no copy is made, as nothing uses it.
func TestTemplateThatNamesAnother(t *testing.T) {
	t.Parallel()
	a := newApplied(t)
	a.putConfigMap("bar", "other")
	a.kubectl("patch", "deployment/web", "--type=json",
		`--patch=[{"op":"replace","path":"/spec/template/spec/volumes/0/configMap/name","value":"bar"}]`)
	a.kubectl("rollout", "status", "deployment/web", "--timeout="+soon.String())
	before := a.copyUIDs()
	a.putConfigMap("foo", "three")
	a.eventually(func() error {
		if config := a.configNow("deployment/web"); len(config.Uncopied()) == 0 {
			return fmt.Errorf("the config still is %s", config)
		}
		return nil
	})
	a.settled("web")
	for name := range a.copyUIDs() {
		if before[name] == "" {
			t.Errorf("the copy %s was made, which nothing uses", name)
		}
	}
	if got := a.volumeOf(); got != "bar" {
		t.Errorf("the template mounts %s, want bar as it was set", got)
	}
	pods := a.stage.Pods(a.namespace)
	for _, pod := range pods {
		if got := a.stage.Config(pod); len(got) != 1 || got[0].Ref.Name != "bar" {
			t.Errorf("pod %s of %d read %v, want bar", pod.Name, len(pods), got)
		}
	}
}

// write writes a file.
func (s *site) write(path, text string) {
	s.t.Helper()
	expect.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
}
