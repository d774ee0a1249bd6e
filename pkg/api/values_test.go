package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestParseValues(t *testing.T) {
	t.Parallel()
	spec, err := api.Parse(map[string]string{
		"sources": `[{configMap: {name: app, expand: {quote: json}}}, {configMap: {name: more, items: [{key: a, path: b, expand: {syntax: "${}"}}, {key: c, path: d}]}}]`,
		"values": `
- secret: {name: db, prefix: DB_}
- configMap: {name: region, namespace: shared, items: [{key: name, path: REGION}], optional: true}
- pod: {name: POD, nodeName: NODE}
`,
	}, "team")
	if err != nil {
		t.Fatal(err)
	}
	ref := func(kind api.Kind, namespace, name string) api.Ref {
		return api.Ref{Kind: kind, Namespace: namespace, Name: name}
	}
	want := []api.Value{
		{Source: api.Source{Ref: ref(api.Secret, "team", "db")}, Prefix: "DB_"},
		{Source: api.Source{Ref: ref(api.ConfigMap, "shared", "region"), Items: []api.Item{{Key: "name", Path: "REGION"}}, Optional: true}},
		{Facts: map[string]string{"name": "POD", "nodeName": "NODE"}},
	}
	if diff := cmp.Diff(want, spec.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&api.Expand{Syntax: "$()", Quote: "json"}, spec.Sources[0].Expand); diff != "" {
		t.Errorf("expand (-want +got):\n%s", diff)
	}
	items := spec.Sources[1].Items
	if diff := cmp.Diff(&api.Expand{Syntax: "${}", Quote: "none"}, items[0].Expand); diff != "" || items[1].Expand != nil {
		t.Errorf("expand of items: %v (-want +got):\n%s", items[1].Expand, diff)
	}
	if got := len(spec.Refs()); got != 4 || !spec.HasExpand() || len(spec.Inputs()) != 4 {
		t.Errorf("%d refs, expand: %t, %d inputs", got, spec.HasExpand(), len(spec.Inputs()))
	}
	with := spec.WithFacts(api.Pod{Name: "web-0", Namespace: "team"}, "node-1")
	if diff := cmp.Diff(map[string]string{"POD": "web-0", "NODE": "node-1"}, with.Values[2].Texts); diff != "" || spec.Values[2].Texts != nil {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	forgiven := spec.Forgive(ref(api.Secret, "team", "db"))
	if !forgiven.Values[0].Source.Optional || spec.Values[0].Source.Optional {
		t.Error("to forgive a value changes another one, or nothing")
	}
}

func TestParseMistakesInValues(t *testing.T) {
	t.Parallel()
	const sources = "[{configMap: {name: app, expand: {}}}]"
	for _, tt := range []struct{ sources, values, want string }{
		{"", "[]", "values: Forbidden: goes with sources"},
		{sources, "{}", "values: Invalid value"},
		{sources, "[{file: a}]", "values[0].file: Forbidden: unknown field, known are configMap, secret, pod"},
		{sources, "[{secret: {name: A}}]", "values[0].secret.name: Invalid value"},
		{sources, "[{secret: {}}]", "values[0].secret.name: Required value"},
		{sources, "[{secret: {name: a}, pod: {name: B}}]", "values[0].pod: Forbidden: the entry already names other values"},
		{sources, "[{secret: {name: a, prefix: 'a b'}}]", "values[0].secret.prefix: Invalid value"},
		{sources, "[{secret: {name: a, items: [{key: b, path: 1c}]}}]", "values[0].secret.items[0].path: Invalid value"},
		{sources, "[{secret: {name: a, items: [{key: b}]}}]", "values[0].secret.items[0].path: Required value"},
		{sources, "[{secret: {name: a, as: {}}}]", "values[0].secret.as: Forbidden: unknown field"},
		{sources, "[{pod: {ip: A}}]", "values[0].pod.ip: Forbidden: unknown field, known are name, namespace, uid, serviceAccountName, nodeName"},
		{sources, "[{pod: {uid: 'a b'}}]", "values[0].pod.uid: Invalid value"},
		{"[{configMap: {name: app, expand: {quote: xml}}}]", "[]", `sources[0].configMap.expand.quote: Unsupported value: "xml"`},
		{"[{configMap: {name: app, expand: {syntax: '{{}}'}}}]", "[]", "sources[0].configMap.expand.syntax: Unsupported value"},
		{"[{configMap: {name: app, expand: true}}]", "[]", "sources[0].configMap.expand: Invalid value"},
		{"[{configMap: {name: app, expand: {}, as: {path: a, format: json}}}]", "[]", "sources[0].configMap.expand: Forbidden: cannot stand beside as"},
		{"[{expand: {}}]", "[]", "sources[0].expand: Forbidden: goes inside configMap or secret"},
	} {
		attributes := map[string]string{"sources": tt.sources, "values": tt.values}
		if tt.sources == "" {
			attributes = map[string]string{"configMap": "app", "values": tt.values}
		}
		if _, err := api.Parse(attributes, "team"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("sources %s, values %s: %v, want %q", tt.sources, tt.values, err, tt.want)
		}
	}
}
