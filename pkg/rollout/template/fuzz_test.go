package template_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// FuzzSources holds for every text of the long form that [api.Parse] takes: each source of the namespace is a use, what
// the text is after it was pointed to copies is the same but for the names, and the way back ends where it began.
func FuzzSources(f *testing.F) {
	for _, text := range []string{
		"[{configMap: {name: foo}}, {secret: {name: foo, items: [{key: a, path: b, mode: 0400}], optional: true}}]",
		"# c\n- configMap:\n    name: foo # c\n    namespace: other\n- {}\n- secret:\n    name: 'tls'\n",
		`[{"configMap": {"name": "f\u006fo"}}]`,
		"- configMap: &a {name: &b !!str foo}\n- secret: *a\n- configMap: {name: *b, items: [{key: *b, path: b}]}\r\n",
		"\ufeff--- [configMap: {name: |-\n foo}]\n...\n#",
		"- ? secret\n  : ? name\n    : >-\n     1e\n- {configMap: {name: 1e}}\u2028# c\u0085",
		"[{configMap: {<<: {name: foo}, name: foo}}]",
		`[{configMap: {as: {path: p, format: dotenv, mode: 0400}, name: "f\u006fo", items: [{key: a}, {key: b.c, path: D}]}}]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkThereAndBack(t, long(text)) })
}

// FuzzShort holds the same for the short form.
func FuzzShort(f *testing.F) {
	f.Add("configMap", "foo", "namespace", "default", "optional", "true")
	f.Add("secret", "foo", "items", "[{key: a, path: b}, {key: a, path: c}]", "uid", "7")
	f.Add("secret", "foo", "namespace", "other", "configMap", "")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, key3, value3 string) {
		checkThereAndBack(t, short(key1, value1, key2, value2, key3, value3))
	})
}

// checkThereAndBack points a template with one volume of ours to copies and back again.
func checkThereAndBack(t *testing.T, in *corev1.PodTemplateSpec) {
	t.Helper()
	all := attributes(in)
	spec, err := api.Parse(all, ours.Namespace)
	if err != nil {
		checkRefused(t, in)
		return
	}
	checkUses(t, in, spec)
	to := copiesOf(spec)
	_, pointed, err := point(t, in, to)
	if err != nil {
		if tooLong := len(all[api.KeySources])+len("!!str -0123456789")*len(spec.Sources) > 64<<10; !tooLong {
			t.Fatalf("Point(%q): %v", all, err)
		}
		return
	}
	checkSpec(t, pointed, renamed(spec, to))
	_, back, err := point(t, pointed, swapped(to))
	if err != nil {
		t.Fatalf("Point(%q), back: %v", attributes(pointed), err)
	}
	checkSpec(t, back, spec)
	if diff := cmp.Diff(all, attributes(back)); diff != "" && !mayBeNew(all[api.KeySources]) {
		t.Errorf("pointed to copies and back (-want +got):\n%s", diff)
	}
}

// mayBeNew reports whether a text has what can keep a name from being changed where it stands: escapes.
func mayBeNew(text string) bool { return strings.Contains(text, `\`) }

func attributes(t *corev1.PodTemplateSpec) map[string]string {
	return t.Spec.Volumes[0].CSI.VolumeAttributes
}

func checkRefused(t *testing.T, in *corev1.PodTemplateSpec) {
	t.Helper()
	found, err := uses(t, in)
	var mistakes *api.AttributesError
	if !errors.As(err, &mistakes) || len(found) > 0 {
		t.Errorf("Uses(%q) = %v, %v, want none and what is wrong with the attributes", attributes(in), found, err)
	}
	changes, _, err := point(t, in, names{configMap("foo"): "foo-0123456789"})
	if !errors.As(err, &mistakes) || len(changes) > 0 {
		t.Errorf("Point(%q) = %v, %v, want none and what is wrong with the attributes", attributes(in), changes, err)
	}
}

// checkUses holds the uses of one volume of ours against what its attributes mean.
func checkUses(t *testing.T, in *corev1.PodTemplateSpec, spec api.Spec) {
	t.Helper()
	got, err := uses(t, in)
	if err != nil {
		t.Fatalf("Uses(%q): %v", attributes(in), err)
	}
	var want []template.Use
	for _, src := range spec.Sources {
		if src.Ref.Namespace != ours.Namespace {
			continue
		}
		use := template.Use{Optional: src.Optional, ByPod: src.Ref.Kind == api.Secret}
		use.Object.Kind, use.Object.Name = src.Ref.Kind, src.Ref.Name
		for _, item := range src.Items {
			if !src.Optional && !slices.Contains(use.Keys, item.Key) {
				use.Keys = append(use.Keys, item.Key)
			}
		}
		slices.Sort(use.Keys)
		want = append(want, use)
	}
	fields := map[string]bool{}
	for i := range got {
		fields[got[i].Field] = true
		got[i].Field = ""
	}
	if diff := cmp.Diff(want, got); diff != "" || len(fields) != len(got) {
		t.Errorf("Uses(%q) have %d fields (-want +got):\n%s", attributes(in), len(fields), diff)
	}
}

func checkSpec(t *testing.T, of *corev1.PodTemplateSpec, want api.Spec) {
	t.Helper()
	got, err := api.Parse(attributes(of), ours.Namespace)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%q says something else, error %v (-want +got):\n%s", attributes(of), err, diff)
	}
}

// copiesOf returns a copy for every object of the namespace. No text that is tried here names one.
func copiesOf(spec api.Spec) names {
	to := names{}
	for _, src := range spec.Sources {
		object := configMap(src.Ref.Name)
		object.Kind = src.Ref.Kind
		to[object] = src.Ref.Name + "-0123456789"
	}
	return to
}

func renamed(spec api.Spec, to names) api.Spec {
	spec.Sources = slices.Clone(spec.Sources)
	for i, src := range spec.Sources {
		object := configMap(src.Ref.Name)
		object.Kind = src.Ref.Kind
		if src.Ref.Namespace == ours.Namespace {
			spec.Sources[i].Ref.Name = to[object]
		}
	}
	return spec
}
