package describe

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestNoFieldIsForgotten goes through all fields that a pod can have, also those that a later
// version of the API may bring: each that names a ConfigMap or a Secret is a use.
func TestNoFieldIsForgotten(t *testing.T) {
	t.Parallel()
	const claim = "spec.volumes[0].ephemeral.volumeClaimTemplate."
	noUses := map[string]string{
		"spec.volumes[0].cephfs.secretFile":        "it is the path of a file on the node",
		claim + "metadata.ownerReferences[0].name": "it names an object of another kind",
		claim + "spec.dataSource.name":             "it names an object of another kind",
		claim + "spec.dataSourceRef.name":          "it names an object of another kind",
	}
	used := 0
	for _, field := range naming("spec", reflect.TypeFor[corev1.PodSpec]()) {
		text, err := yaml.Marshal(only(strings.TrimPrefix(field, "spec."), "foo"))
		if err != nil {
			t.Fatal(err)
		}
		got := othersOf(read(t, string(text)), ours.Namespace)
		if _, found := noUses[field]; found {
			delete(noUses, field)
			if len(got) > 0 {
				t.Errorf("%s: othersOf = %v, want none", field, got)
			}
			continue
		}
		used++
		object := "secret/foo"
		if strings.Contains(field, "onfigMap") {
			object = "configmap/foo"
		}
		want := []Use{{Object: object, Field: field}}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Use{}, "Way", "Type", "Optional")); diff != "" {
			t.Errorf("%s names an object. othersOf (-want +got):\n%s", field, diff)
		}
		if len(got) == 1 && got[0].Way == "" {
			t.Errorf("%s: the way of its use is missing", field)
		}
	}
	for field := range noUses {
		t.Errorf("a pod has no field %s any more", field)
	}
	if want := 26; used != want {
		t.Errorf("%d fields are uses, want %d", used, want)
	}
}

// naming returns the fields below a type that may name a ConfigMap or a Secret: texts that are
// called so, and names in types that are called so or are references.
func naming(at string, in reflect.Type) []string {
	switch in.Kind() {
	case reflect.Pointer:
		return naming(at, in.Elem())
	case reflect.Slice:
		return naming(at+"[0]", in.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var found []string
	for field := range in.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		isReference := name == "name" && (isOurs(in.Name()) || strings.HasSuffix(in.Name(), "Reference"))
		switch {
		case !field.IsExported():
		case field.Anonymous && name == "":
			found = append(found, naming(at, field.Type)...)
		case kind.Kind() == reflect.String && (isOurs(name) || isReference):
			found = append(found, at+"."+name)
		default:
			found = append(found, naming(at+"."+name, field.Type)...)
		}
	}
	return found
}

func isOurs(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "secret") || strings.Contains(name, "configmap")
}

// only returns an object with this field alone.
func only(field, value string) map[string]any {
	first, rest, isDeeper := strings.Cut(field, ".")
	var below any = value
	if isDeeper {
		below = only(rest, value)
	}
	if name, isList := strings.CutSuffix(first, "[0]"); isList {
		return map[string]any{name: []any{below}}
	}
	return map[string]any{first: below}
}
