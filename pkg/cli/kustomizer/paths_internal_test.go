package kustomizer

import (
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/kustomize/api/types"
)

// TestEveryFieldIsKnown: a field of kustomize that is new here may name a path, which pathsOf has to return.
func TestEveryFieldIsKnown(t *testing.T) {
	t.Parallel()
	known := []string{
		// Fields that name nothing.
		"TypeMeta", "MetaData", "NamePrefix", "NameSuffix", "Namespace", "CommonLabels", "Labels", "CommonAnnotations", "Images",
		"ImageTags", "Replicas", "Vars", "SortOptions", "HelmGlobals", "GeneratorOptions", "BuildMetadata",
		// FixKustomization moves them to others.
		"Bases",
	}
	var k types.Kustomization
	for _, group := range pathsOf(k) {
		known = append(known, group.field)
	}
	for _, program := range programsOf(k) {
		known = append(known, program.field)
	}
	for field := range reflect.TypeFor[types.Kustomization]().Fields() {
		name := field.Tag.Get("yaml")
		isKnown := slices.ContainsFunc(known, func(k string) bool { return k == field.Name || k+",omitempty" == name })
		if !isKnown {
			t.Errorf("kustomize has a field %s: add it to pathsOf if it names paths, or to this list", field.Name)
		}
	}
}
