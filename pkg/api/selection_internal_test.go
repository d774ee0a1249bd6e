package api

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseSelection parses what configMap holds, in a volume of a pod in the namespace default.
func parseSelection(t *testing.T, text string) (Source, error) {
	t.Helper()
	p := parser{namespace: "default", meant: map[string]bool{}, paths: newPathSet(refuseRepeats)}
	at := field.NewPath("configMap")
	value, ok := p.yaml(at, text)
	if !ok {
		t.Fatalf("%q is not YAML", text)
	}
	if !selects(value) {
		t.Fatalf("%q has no labelSelector", text)
	}
	return p.selection(at, ConfigMap, value), p.err()
}

func TestSelection(t *testing.T) {
	t.Parallel()
	mode := fs.FileMode(0o400)
	own := []string{"default"}
	tests := map[string]struct {
		text string
		want Selection
	}{
		"defaults": {
			`{labelSelector: {matchLabels: {grafana_dashboard: "1"}}}`,
			Selection{Selector: "grafana_dashboard=1", Namespaces: own, Path: "$(key)"},
		},
		"everything": {
			`{labelSelector: {matchLabels: {b: "2", a.io/a: ""}, matchExpressions: [` +
				`{key: e, operator: In, values: [w, x, w]}, {key: d, operator: NotIn, values: [z]}, ` +
				`{key: c, operator: Exists}, {key: c.io/d, operator: DoesNotExist, values: []}]}, ` +
				`namespaces: [shop, billing], path: a/$(namespace)/$(name).$(key), folderAnnotation: Grafana_folder, ` +
				`optional: true, mode: 0400}`,
			Selection{
				Selector:   "!c.io/d,a.io/a=,b=2,c,d notin (z),e in (w,x)",
				Namespaces: []string{"billing", "shop"}, Path: "a/$(namespace)/$(name).$(key)",
				FolderAnnotation: "Grafana_folder", Mode: &mode,
			},
		},
		"every namespace": {
			`{labelSelector: {matchLabels: {a: b}}, namespaces: ["*"]}`,
			Selection{Selector: "a=b", Namespaces: []string{"*"}, Path: "$(key)"},
		},
		"as in meta/v1, an empty selector is every object": {
			`{labelSelector: {}}`, Selection{Namespaces: own, Path: "$(key)"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseSelection(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			want := Source{Ref: Ref{Kind: ConfigMap}, Selection: &tt.want, Optional: name == "everything"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectionMistakes(t *testing.T) {
	t.Parallel()
	const selector = `labelSelector: {matchLabels: {a: b}}`
	tests := map[string]struct{ text, want string }{
		"fields of a named source": {
			`{` + selector + `, name: a, namespace: b, items: [], as: {}, defaultMode: 0400, mod: 0400}`,
			`configMap.name: Forbidden: cannot stand beside labelSelector, keep one; ` +
				`configMap.namespace: Forbidden: beside labelSelector it is a list, write namespaces: [shop]; ` +
				`configMap.items: Forbidden: cannot stand beside labelSelector, which makes a file of every key: ` +
				`name the object, or drop it; ` +
				`configMap.as: Forbidden: cannot stand beside labelSelector, which makes a file of every key: ` +
				`name the object, or drop it; ` +
				`configMap.defaultMode: Forbidden: belongs to the whole volume, make it an attribute beside sources; ` +
				`configMap.mod: Forbidden: unknown field, did you mean "mode"?`,
		},
		"a text": {
			`{labelSelector: "a=b"}`,
			`configMap.labelSelector: Invalid value: "a=b": must be an object, not a string: write {matchLabels: {app: web}}`,
		},
		"a label one level too high": {
			`{labelSelector: {app: web}}`,
			`configMap.labelSelector.app: Forbidden: a label goes inside matchLabels: write {matchLabels: {app: web}}`,
		},
		"a list of labels": {
			`{labelSelector: {matchLabels: [a]}}`,
			`configMap.labelSelector.matchLabels: Invalid value: must be an object, not a list: write {app: web}`,
		},
		"wrong labels": {
			`{labelSelector: {matchLabels: {a/b/c: x, d: "x y", e: 1, 5: f, g: h, g: i}}}`,
			`configMap.labelSelector.matchLabels.a/b/c: Invalid value: "a/b/c": must be the name of a label: up to 63 of ` +
				`letters, digits, "-", "_" and ".", first and last a letter or digit, perhaps after a domain and a slash; ` +
				`configMap.labelSelector.matchLabels.d: Invalid value: "x y": must be the value of a label: up to 63 of ` +
				`letters, digits, "-", "_" and ".", first and last a letter or digit, or empty; ` +
				`configMap.labelSelector.matchLabels.e: Invalid value: 1: must be a string, not a number: put it in quotes; ` +
				`configMap.labelSelector.matchLabels.5: Invalid value: 5: must be the name of a label, not a number: ` +
				`put it in quotes; ` +
				`configMap.labelSelector.matchLabels.g: Duplicate value: "g": the label is given more than once, keep one`,
		},
		"wrong expressions": {
			`{labelSelector: {matchExpressions: [{}, {key: a, operator: in, values: [b]}, {key: a, operator: In}, ` +
				`{key: a, operator: Exists, values: [b]}, {key: a, operator: NotIn, values: ["b,c"]}]}}`,
			`configMap.labelSelector.matchExpressions[0].key: Required value: write the name of a label; ` +
				`configMap.labelSelector.matchExpressions[0].operator: Required value: ` +
				`write In, NotIn, Exists or DoesNotExist; ` +
				`configMap.labelSelector.matchExpressions[1].operator: Unsupported value: "in": supported values: ` +
				`"In", "NotIn", "Exists", "DoesNotExist", did you mean "In"?; ` +
				`configMap.labelSelector.matchExpressions[2].values: Required value: ` +
				`write at least one value beside In and NotIn; ` +
				`configMap.labelSelector.matchExpressions[3].values: Forbidden: cannot stand beside Exists and DoesNotExist; ` +
				`configMap.labelSelector.matchExpressions[4].values[0]: Invalid value: "b,c": must be the value of a label: ` +
				`up to 63 of letters, digits, "-", "_" and ".", first and last a letter or digit, or empty`,
		},
		"a namespace instead of a list": {
			`{` + selector + `, namespaces: shop}`,
			`configMap.namespaces: Invalid value: "shop": must be a list, not a string: write [shop, billing] or ["*"]`,
		},
		"wrong namespaces": {
			`{` + selector + `, namespaces: [shop, "*", Shop, shop]}`,
			`configMap.namespaces[2]: Invalid value: "Shop": must be a namespace: up to 63 of a-z, 0-9 and "-", ` +
				`first and last a letter or digit, or leave it out for the pod's own; ` +
				`configMap.namespaces[3]: Duplicate value: "shop": the namespace is listed more than once, keep one; ` +
				`configMap.namespaces: Forbidden: "*" is every namespace, so it stands alone: write ["*"], ` +
				`or list namespaces without it`,
		},
		"no namespace": {
			`{` + selector + `, namespaces: []}`,
			`configMap.namespaces: Required value: must have at least one namespace, or leave it out for the pod's own`,
		},
		"a path that leaves the volume": {
			`{` + selector + `, path: ../$(key)}`,
			`configMap.path: Invalid value: "../$(key)": must not contain the element ".."`,
		},
		"an unknown placeholder": {
			`{` + selector + `, path: $(keys)/$(key)}`,
			`configMap.path: Invalid value: "$(keys)/$(key)": has a placeholder that is not known, ` +
				`known are $(namespace), $(name) and $(key)`,
		},
		"an empty path": {
			`{` + selector + `, path: ""}`,
			`configMap.path: Required value: must not be empty, write $(namespace)/$(name)/$(key) or leave it out for $(key)`,
		},
		"a wrong annotation": {
			`{` + selector + `, folderAnnotation: a/b/c}`,
			`configMap.folderAnnotation: Invalid value: "a/b/c": must be the name of an annotation, such as grafana_folder`,
		},
		"too many labels": {
			`{labelSelector: {matchLabels: {` + numbered("l%d: x", 30) + `}, matchExpressions: [` +
				numbered("{key: k%d, operator: Exists}", 3) + `]}}`,
			`configMap.labelSelector.matchExpressions: Invalid value: 3: the most for a source is 32, this makes 33`,
		},
		"too many values": {
			`{labelSelector: {matchExpressions: [{key: k, operator: In, values: [` + numbered("v%d", 129) + `]}]}}`,
			`configMap.labelSelector.matchExpressions[0].values: Invalid value: 129: the most for a source is 128, ` +
				`this makes 129; configMap.labelSelector.matchExpressions[0].values: Required value: ` +
				`write at least one value beside In and NotIn`,
		},
		"too many namespaces": {
			`{` + selector + `, namespaces: [` + numbered("n%d", 257) + `]}`,
			`configMap.namespaces: Invalid value: 257: the most for a volume is 256, this makes 257: use two volumes`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseSelection(t, tt.text)
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("error:\n%v\nwant its end:\n%s", err, tt.want)
			}
		})
	}
}

// numbered returns the format once for each number, as a list.
func numbered(format string, count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

func TestPathOf(t *testing.T) {
	t.Parallel()
	ref := Ref{Kind: ConfigMap, Namespace: "shop", Name: "orders"}
	tests := map[string]struct{ template, key, folder, want, problem string }{
		"the key":          {"$(key)", "a.json", "", "a.json", ""},
		"everything":       {"$(namespace)/$(name)/$(key)", "a.json", "", "shop/orders/a.json", ""},
		"twice":            {"$(name)-$(name).json", "a", "", "orders-orders.json", ""},
		"texts around":     {"a$b)-$(name).$(key)~", "k", "", "a$b)-orders.k~", ""},
		"no placeholder":   {"all.json", "k", "", "all.json", ""},
		"a folder":         {"$(key)", "a.json", "Web//Teams/", "Web/Teams/a.json", ""},
		"no second look":   {"$(key)", "$(name)", "", "$(name)", ""},
		"an absolute one":  {"$(key)", "a", "/etc", "/etc/a", "must be relative to the volume, drop the slash in front"},
		"one that leaves":  {"$(key)", "a", "../x", "../x/a", `must not contain the element ".."`},
		"no UTF-8":         {"$(key)", "a", "\xff", "\xff/a", "must be UTF-8"},
		"a reserved name":  {"$(key)", "..data", "", "..data", `must not start with "..", such names are reserved`},
		"reserved, hidden": {"$(key)", "..data", ".", "..data", `must not start with "..", such names are reserved, and it means "..data"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problem := Selection{Path: tt.template}.PathOf(ref, tt.key, tt.folder)
			if got != tt.want || problem != tt.problem {
				t.Errorf("PathOf = %q, %q, want %q, %q", got, problem, tt.want, tt.problem)
			}
		})
	}
}

// TestMistakesBesideSelections also checks that all mistakes are reported at once.
func TestMistakesBesideSelections(t *testing.T) {
	t.Parallel()
	_, err := Parse(map[string]string{
		KeySources: `[{configMap: {labelSelector: {}, mode: 9999, expand: {}}}, ` +
			`{secret: {name: a, namespaces: [a], path: b, folderAnnotation: c}}]`,
		KeyValues: `[{secret: {labelSelector: {}}}]`,
	}, "default")
	const want = `sources[0].configMap.mode: Invalid value: 9999: must be from 0 to 0777 (octal); ` +
		`sources[0].configMap.expand: Forbidden: cannot stand beside labelSelector, which makes a file of every key: ` +
		`name the object, or drop it; ` +
		`sources[1].secret.namespaces: Forbidden: goes with labelSelector, for one object write namespace; ` +
		`sources[1].secret.path: Forbidden: goes with labelSelector, for the keys of one object write it inside items; ` +
		`sources[1].secret.folderAnnotation: Forbidden: goes with labelSelector; ` +
		`values[0].secret.labelSelector: Forbidden: goes with sources only: values come from objects that have a name, ` +
		`so write one entry for each; ` +
		`values[0].secret.name: Required value: write the name of the Secret`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error:\n%v\nwant its end:\n%s", err, want)
	}
}

// TestNamespacesOfAllSelections: each namespace of each source has a watch.
func TestNamespacesOfAllSelections(t *testing.T) {
	t.Parallel()
	one := "{configMap: {labelSelector: {}, namespaces: [" + numbered("n%d", 128) + "]}}"
	tests := map[string]struct{ sources, want string }{
		"as many as may be": {one + ", " + one, ""},
		"a list too many":   {one + ", " + one + ", " + one, "sources[2].configMap.namespaces: Invalid value: 128: the most"},
		"the pod's own":     {one + ", " + one + ", {secret: {labelSelector: {}}}", "sources[2].secret.namespaces: Invalid value: 1:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(map[string]string{KeySources: "[" + tt.sources + "]"}, "default")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestForgive: to forgive that all objects of a kind are gone concerns no other source.
func TestForgive(t *testing.T) {
	t.Parallel()
	spec, err := Parse(map[string]string{KeySources: `[{configMap: {labelSelector: {}}}]`}, "default")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Forgive(Ref{Kind: ConfigMap}).Sources[0].Optional {
		t.Error("the source is optional, want it as it was")
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	spec, err := Parse(map[string]string{KeySources: `[{configMap: {name: web}},
		{configMap: {labelSelector: {}, namespaces: [a, b]}},
		{configMap: {labelSelector: {matchLabels: {app: web}}, namespaces: [b]}}, {secret: {labelSelector: {}, namespaces: ["*"]}}]`},
		"default")
	if err != nil {
		t.Fatal(err)
	}
	want := []Ref{{Kind: ConfigMap, Namespace: "a"}, {Kind: ConfigMap, Namespace: "b"}, {Kind: Secret}}
	if diff := cmp.Diff(want, spec.Ranges()); diff != "" {
		t.Errorf("Ranges (-want +got):\n%s", diff)
	}
}

// TestMayMake compares a path with those that a selection can have in a namespace.
func TestMayMake(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, folder, namespace, file string
		want                          bool
	}{
		"any key":                       {"$(key)", "", "shop", "a", true},
		"the directory of all":          {"$(namespace)/$(key)", "", "shop", "", true},
		"of the namespace":              {"$(namespace)/$(key)", "", "shop", "shop/a", true},
		"the namespace":                 {"$(namespace)/$(key)", "", "shop", "shop", true},
		"of another namespace":          {"$(namespace)/$(key)", "", "shop", "billing/a", false},
		"of a longer namespace":         {"$(namespace)/$(key)", "", "shop", "shopping/a", false},
		"of all namespaces":             {"$(namespace)/$(key)", "", "", "billing/a", true},
		"of another directory":          {"rules/$(key)", "", "", "dashboards/a", false},
		"of a directory of the objects": {"rules/$(key)", "folder", "", "dashboards/a", true},
	} {
		s := Selection{Path: tt.path, FolderAnnotation: tt.folder}
		if got := s.MayMake(tt.namespace, tt.file); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestSeenFrom(t *testing.T) {
	t.Parallel()
	for want, ref := range map[string]Ref{
		"configmap/web":                          {Kind: ConfigMap, Namespace: "shop", Name: "web"},
		"secret/web in billing":                  {Kind: Secret, Namespace: "billing", Name: "web"},
		"configmap/[team=web] in all namespaces": Ref{Kind: ConfigMap}.Selecting("team=web"),
	} {
		if got := ref.SeenFrom("shop"); got != want {
			t.Errorf("SeenFrom() = %s, want %s", got, want)
		}
	}
}
