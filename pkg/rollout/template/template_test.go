package template_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// ours is the place of every template here.
var ours = template.Place{Namespace: "default", Driver: "csi.liveconfig.internal"}

type names = map[api.Ref]string

func configMap(name string) api.Ref { return api.Ref{Kind: api.ConfigMap, Name: name} }

func secret(name string) api.Ref { return api.Ref{Kind: api.Secret, Name: name} }

// swapped turns the names around.
func swapped(of names) names {
	back := names{}
	for object, name := range of {
		back[api.Ref{Kind: object.Kind, Name: name}] = object.Name
	}
	return back
}

func volumes(sources ...corev1.VolumeSource) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{}
	for i, source := range sources {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "v" + strconv.Itoa(i), VolumeSource: source})
	}
	return t
}

func csi(driver string, attributes map[string]string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: attributes}}
}

// short is a template with one volume of ours, in the short form.
func short(attributes ...string) *corev1.PodTemplateSpec {
	all := map[string]string{}
	for i := 0; i < len(attributes); i += 2 {
		all[attributes[i]] = attributes[i+1]
	}
	return volumes(csi(ours.Driver, all))
}

// long is a template with one volume of ours, in the long form.
func long(sources string) *corev1.PodTemplateSpec { return short(api.KeySources, sources) }

// uses calls Uses, and checks that this changes nothing.
func uses(t *testing.T, of *corev1.PodTemplateSpec) ([]template.Use, error) {
	t.Helper()
	before := of.DeepCopy()
	got, err := template.Uses(of, ours)
	if diff := cmp.Diff(before, of); diff != "" {
		t.Errorf("Uses changed the template (-before +after):\n%s", diff)
	}
	return got, err
}

// point calls Point, and checks that this changes nothing. It returns the template after the changes as well.
func point(t *testing.T, of *corev1.PodTemplateSpec, to names) ([]template.Change, *corev1.PodTemplateSpec, error) {
	t.Helper()
	before := of.DeepCopy()
	changes, err := template.Point(of, ours, to)
	if diff := cmp.Diff(before, of); diff != "" {
		t.Errorf("Point changed the template (-before +after):\n%s", diff)
	}
	return changes, apply(t, of, changes), err
}

// apply makes changes as an API server does: in the JSON of the template, and only where the text is the one expected.
func apply(t *testing.T, to *corev1.PodTemplateSpec, changes []template.Change) *corev1.PodTemplateSpec {
	t.Helper()
	var document any
	transcode(t, to, &document)
	for _, change := range changes {
		replace(t, document, change)
	}
	changed := &corev1.PodTemplateSpec{}
	transcode(t, document, changed)
	return changed
}

func transcode(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, document any, change template.Change) {
	t.Helper()
	steps := strings.Split(strings.TrimPrefix(change.Pointer, "/"), "/")
	for i, step := range steps {
		switch node := document.(type) {
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(node) {
				t.Fatalf("%s: there is no element %s", change.Pointer, step)
			}
			document = node[index]
		case map[string]any:
			if i < len(steps)-1 {
				document = node[step]
				continue
			}
			if _, isText := node[step].(string); !isText {
				t.Fatalf("%s: it is %v that stands there, and no text", change.Pointer, node[step])
			}
			node[step] = change.To
		default:
			t.Fatalf("%s: there is no %s", change.Pointer, step)
		}
	}
}
