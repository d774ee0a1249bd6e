package kustomization_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomization"
)

func TestIsRenamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to, beside string
		want             bool
	}{
		"a hash":                                {"web", "web-4h2mbtbbt6", "web", true},
		"a hash and a prefix":                   {"web", "shop-web-4h2mbtbbt6", "api", true},
		"a hash and a suffix":                   {"web", "web-test-4h2mbtbbt6", "api", true},
		"a prefix that the workload has":        {"web", "shop-web", "shop-api", true},
		"a suffix that the workload has":        {"web", "web-test", "api-test", true},
		"a prefix that the workload has not":    {"web", "my-web", "shop-api", false},
		"the same name":                         {"web", "web", "web", false},
		"another name":                          {"web", "api-4h2mbtbbt6", "web", false},
		"ten signs that kustomize cannot write": {"web", "web-0123456789", "api", false},
	} {
		if got := kustomization.IsRenamed(test.from, test.to, test.beside); got != test.want {
			t.Errorf("%s: IsRenamed(%q, %q, %q) = %t, want %t", name, test.from, test.to, test.beside, got, test.want)
		}
	}
}

func TestRenames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object map[string]any
		want   []string
	}{
		"a kustomization without a kind": {map[string]any{"namePrefix": "a-", "nameSuffix": ""}, []string{"namePrefix"}},
		"a kustomization": {
			map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "secretGenerator": []any{}},
			[]string{"secretGenerator"},
		},
		"a component":     {map[string]any{"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "nameSuffix": "-a"}, []string{"nameSuffix"}},
		"nothing renamed": {map[string]any{"resources": []any{"a.yaml"}}, nil},
		"another object":  {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namePrefix": "a"}, nil},
	} {
		if diff := cmp.Diff(test.want, kustomization.Renames(test.object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
