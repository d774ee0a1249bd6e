package rollout

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// twoContainers is the Deployment web with uses of foo in two containers and two volumes. The lines of some of them can be
// left out, by the word that the lines end in.
func twoContainers(without ...string) string {
	return leaveOut(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {liveconfig.internal/triggered-by: configmap/foo}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: example.test/main:1
        env: # variable
        - {name: MODE, valueFrom: {configMapKeyRef: {name: foo, key: config}}} # variable
      - name: beside # container
        image: example.test/beside:1 # container
        env: # container
        - {name: MODE, valueFrom: {configMapKeyRef: {name: foo, key: config}}} # container
      volumes:
      - {name: config, configMap: {name: foo}} # name
      - {name: more, configMap: {name: foo}} # volume
`, without)
}

// leaveOut drops the lines of a manifest that end in one of the words, behind a hash.
func leaveOut(manifest string, words []string) string {
	var kept []string
	for line := range strings.Lines(manifest) {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasSuffix(line, "# "+word+"\n") }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// serverSide are the flags of server-side apply.
func serverSide(manager string, more ...string) []string {
	return append([]string{"--server-side", "--field-manager=" + manager}, more...)
}

// fieldsOf returns the fields of web that a manager owns, in order and without what they are in.
func (s *site) fieldsOf(manager string) []string {
	s.t.Helper()
	var fields []string
	for _, entry := range s.deployment("web").ManagedFields {
		if entry.Manager != manager || entry.Subresource != "" {
			continue
		}
		var tree map[string]any
		expect.NoError(s.t, json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree))
		fields = append(fields, leaves("", tree)...)
	}
	slices.Sort(fields)
	return fields
}

// leaves returns the paths of the leaves of a tree of fields.
func leaves(path string, tree map[string]any) []string {
	var found []string
	for name, below := range tree {
		switch kind, rest, _ := strings.Cut(name, ":"); kind {
		case ".": // What is around other fields.
			continue
		case "f":
			name = "." + rest
		case "k":
			name = "[" + rest + "]"
		}
		if deeper, ok := below.(map[string]any); ok && len(deeper) > 0 {
			found = append(found, leaves(path+name, deeper)...)
		} else {
			found = append(found, path+name)
		}
	}
	return found
}

// pointed waits until the template of web does not name foo itself and has a config.
func (s *site) pointed() {
	s.t.Helper()
	s.eventually(func() error {
		template := s.deployment("web").Spec.Template
		if _, found := template.Annotations[trigger.ConfigAnnotation]; !found {
			return fmt.Errorf("the template has no config: %v", template.Annotations)
		}
		for _, v := range template.Spec.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name == "foo" {
				return fmt.Errorf("volume %s uses foo itself", v.Name)
			}
		}
		for _, c := range template.Spec.Containers {
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef.Name == "foo" {
					return fmt.Errorf("container %s uses foo itself", c.Name)
				}
			}
		}
		return nil
	})
}

// TestControllerOwnsNamesAndWhatItWrites: the controller owns the names that it has changed, its annotation and its label,
// and nothing else, after any number of edits.
func TestControllerOwnsNamesAndWhatItWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(twoContainers(), serverSide("user")...)
	s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.putConfigMap("foo", "two")
	s.rolledOut("web", map[string]string{"configmap/foo": "two"})
	s.pointed()
	want := []string{
		`.metadata.labels.liveconfig.internal/rollout`,
		`.spec.template.metadata.annotations.liveconfig.internal/config`,
		`.spec.template.spec.containers[{"name":"beside"}].env[{"name":"MODE"}].valueFrom.configMapKeyRef`,
		`.spec.template.spec.containers[{"name":"main"}].env[{"name":"MODE"}].valueFrom.configMapKeyRef`,
		`.spec.template.spec.volumes[{"name":"config"}].configMap.name`,
		`.spec.template.spec.volumes[{"name":"more"}].configMap.name`,
	}
	if diff := cmp.Diff(want, s.fieldsOf(rollout.FieldManager)); diff != "" {
		t.Errorf("fields of the controller (-want +got):\n%s", diff)
	}
}

// TestOthersWriteTheirFields: a user scaling, and server-side apply of other fields, meet no conflict and keep what
// was written, and the names stay. A user who applies a name of a source gets a conflict that names the manager.
func TestOthersWriteTheirFields(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(twoContainers(), serverSide("user")...)
	first := s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.kubectl("scale", "deployment/web", "--replicas=3")
	others := strings.NewReplacer(", valueFrom: {configMapKeyRef: {name: foo, key: config}}", "", ", configMap: {name: foo}", "", "main:1", "main:2")
	s.apply(others.Replace(twoContainers()), serverSide("user")...)
	s.putConfigMap("foo", "two")
	second := s.rolledOut("web", map[string]string{"configmap/foo": "two"})
	if cmp.Equal(first, second) {
		t.Errorf("the edit did not change the copy: %v", second)
	}
	d := s.deployment("web")
	if got := *d.Spec.Replicas; got != 3 {
		t.Errorf("replicas = %d, want 3", got)
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "example.test/main:2" {
		t.Errorf("image = %q, want that of the last apply", got)
	}

	_, err := s.tryApply(twoContainers(), serverSide("user")...)
	wanted := []string{rollout.FieldManager, `volumes[name="config"].configMap.name`}
	for _, text := range wanted {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("apply of a name that the controller has changed: error = %v, want %q in it", err, text)
		}
	}
	s.apply(twoContainers(), serverSide("user", "--force-conflicts")...)
	s.pointed()
	if got := s.rolledOut("web", map[string]string{"configmap/foo": "two"}); !cmp.Equal(got, second) {
		t.Errorf("after names were put back by force the copies are %v, want %v", got, second)
	}
}

// TestOthersRemoveWhatTheControllerWroteInto: a container, a variable and a volume go when their owner applies a manifest
// without them, although the controller has changed a name in each.
func TestOthersRemoveWhatTheControllerWroteInto(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(twoContainers(), serverSide("user")...)
	s.rolledOut("web", map[string]string{"configmap/foo": "one"})
	s.apply(twoContainers("variable", "container", "volume"), serverSide("user", "--force-conflicts")...)
	s.pointed()
	spec := s.deployment("web").Spec.Template.Spec
	if len(spec.Containers) != 1 || len(spec.Containers[0].Env) != 0 || len(spec.Volumes) != 1 {
		t.Errorf("after an apply without them there are containers %v with variables %v, and volumes %v",
			spec.Containers, spec.Containers[0].Env, spec.Volumes)
	}
	s.putConfigMap("foo", "two")
	s.rolledOut("web", map[string]string{"configmap/foo": "two"})
}

// tryApply is apply that may fail.
func (s *site) tryApply(manifest string, flags ...string) (string, error) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "manifest.yaml")
	s.write(path, manifest)
	return s.c.Kubectl(s.t.Context(), append([]string{"--namespace=" + s.namespace, "apply", "--filename=" + path}, flags...)...)
}
