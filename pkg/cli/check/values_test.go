package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// podWithValues is a pod whose volume has these attributes, each in a separate line.
func podWithValues(attributes ...string) string {
	return "kind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]\n" +
		"  volumes:\n    - name: v\n      csi:\n        driver: csi.liveconfig.internal\n        readOnly: true\n        volumeAttributes:\n          " +
		strings.Join(attributes, "\n          ") + "\n---\n"
}

// TestNamesWithoutValues are found with their lines, as far as the manifests have the objects.
func TestNamesWithoutValues(t *testing.T) {
	t.Parallel()
	const (
		expanded = "sources: '[{configMap: {name: app, expand: {quote: json}}}]'"
		object   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata:\n  app.json: |\n    {\n"
		secret   = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {user: u, password: p}\n"
	)
	fromSecret := podWithValues(expanded, "values: '[{secret: {name: db, prefix: DB_}}]'")
	tests := map[string]struct {
		text string
		want []string
	}{
		"all have values": {fromSecret + object + "    $(DB_user) $(DB_password)\n" + secret, nil},
		"one has none": {fromSecret + object + "    $(DB_user)\n    $(DB_host)\n" + secret, []string{
			"x.yaml:21: configmap/app: data.app.json: line 3: no value is called DB_host, and it has no default, in a volume of Pod/p",
		}},
		"one has a default":            {fromSecret + object + "    $(DB_host:-db)\n" + secret, nil},
		"text that only looks so":      {fromSecret + object + "    $$(DB_host) $(date +%s)\n" + secret, nil},
		"the values are elsewhere":     {fromSecret + object + "    $(DB_host)\n", nil},
		"elsewhere, another prefix":    {fromSecret + object + "    $(HOST)\n", []string{"x.yaml:20: configmap/app: data.app.json: line 2: no value is called HOST"}},
		"no values at all":             {podWithValues(expanded) + object + "    $(HOST)\n", []string{"x.yaml:19: configmap/app: data.app.json: line 2: no value is called HOST"}},
		"no expansion":                 {podWithValues("configMap: app") + object + "    $(HOST)\n", nil},
		"facts about the pod":          {podWithValues(expanded, "values: '[{pod: {name: POD}}]'") + object + "    $(POD)\n", nil},
		"another fact":                 {podWithValues(expanded, "values: '[{pod: {name: POD}}]'") + object + "    $(NODE)\n", []string{"x.yaml:20: configmap/app: data.app.json: line 2: no value is called NODE"}},
		"items, of an object not here": {podWithValues(expanded, "values: '[{secret: {name: db, items: [{key: password, path: PW}]}}]'") + object + "    $(PW) $(USER)\n", []string{"x.yaml:20: configmap/app: data.app.json: line 2: no value is called USER"}},
		"one item has values": {podWithValues("sources: '[{configMap: {name: app, items: [{key: app.json, path: a, expand: {}}, {key: b, path: b}]}}]'") +
			object + "    $(HOST)\n  b: $(HOST)\n", []string{"x.yaml:19: configmap/app: data.app.json: line 2: no value is called HOST"}},
		"another syntax": {podWithValues("sources: '[{configMap: {name: app, expand: {syntax: \"${}\"}}}]'") + object + "    $(HOST) ${PORT}\n", []string{
			"x.yaml:19: configmap/app: data.app.json: line 2: no value is called PORT",
		}},
		"a quoting that does not exist": {fromSecret + object + "    $(DB_user|jsn)\n" + secret, []string{
			`x.yaml:20: configmap/app: data.app.json: line 2: DB_user: there is no quoting "jsn"`,
		}},
		"two pods with the same mistake": {podWithValues(expanded) + podWithValues(expanded) + object + "    $(HOST)\n", []string{
			"x.yaml:31: configmap/app: data.app.json: line 2: no value is called HOST",
		}},
		"in the base64 of a Secret": {
			podWithValues("sources: '[{secret: {name: s, expand: {}}}]'") +
				"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  k: JChIT1NUKQ==\n",
			[]string{"x.yaml:17: secret/s: data.k: line 1: no value is called HOST"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := check.Checker{Driver: selection.Driver, Namespace: "default"}
			checker.File(manifest.File{Name: "x.yaml", Text: test.text})
			checker.Values()
			var got []string
			for _, f := range checker.Findings {
				got = append(got, f.String())
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("findings (-want +got):\n%s", cmp.Diff(test.want, got))
			}
		})
	}
}
