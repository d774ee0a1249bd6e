package treebuilder_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// volume is the attributes of a volume with values, and the objects that there are.
type volume struct {
	sources, values, defaultMode string
	objects                      map[string]map[string]string // Data by «configmap/name» or «secret/name».
}

func (v volume) build(t *testing.T) (treebuilder.Plan, map[string]string, error) {
	t.Helper()
	attributes := map[string]string{"sources": v.sources, "values": v.values}
	if v.defaultMode != "" {
		attributes["defaultMode"] = v.defaultMode
	}
	spec, err := api.Parse(attributes, "team")
	if err != nil {
		t.Fatal(err)
	}
	contents := map[api.Ref]api.Content{}
	for name, data := range v.objects {
		kind, name, _ := strings.Cut(name, "/")
		ref := api.Ref{Kind: map[string]api.Kind{"configmap": api.ConfigMap, "secret": api.Secret}[kind], Namespace: "team", Name: name}
		c := api.Content{Ref: ref, Data: map[string][]byte{}}
		for key, value := range data {
			c.Data[key] = []byte(value)
		}
		contents[ref] = c
	}
	plan, err := treebuilder.Prepare(spec.WithFacts(api.Pod{Name: "web-0"}, "node"), nil, contents)
	if err != nil {
		return plan, nil, err
	}
	files := map[string]string{}
	rendered := plan.Rendered()
	for _, f := range plan.Tree().Files {
		files[f.Path] = string(f.Data)
	}
	if rendered == 0 && strings.Contains(v.sources, "expand") {
		t.Error("rendering takes no memory")
	}
	return plan, files, nil
}

// TestValuesInFiles: the last value of a name counts, values make no files, and files without expand stay.
func TestValuesInFiles(t *testing.T) {
	t.Parallel()
	v := volume{
		sources: `[{configMap: {name: app, expand: {quote: json}}}, {configMap: {name: plain, items: [{key: a, path: plain/a}, {key: b, path: plain/b, expand: {syntax: "${}"}}]}}]`,
		values:  "[{secret: {name: db, prefix: DB_}}, {configMap: {name: more, optional: true}}, {pod: {name: POD, nodeName: NODE}}, {configMap: {name: over, items: [{key: x, path: DB_user}]}}]",
		objects: map[string]map[string]string{
			"configmap/app":   {"app.json": `{"user": $(DB_user), "password": $(DB_password), "pod": $(POD), "none": $(NONE:-x)}`},
			"configmap/plain": {"a": "$(DB_user)", "b": "${NODE} $(DB_user)"},
			"secret/db":       {"user": "old", "password": `p"w`, "bad key": "x"},
			"configmap/over":  {"x": "new"},
		},
	}
	plan, files, err := v.build(t)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"app.json": `{"user": "new", "password": "p\"w", "pod": "web-0", "none": "x"}`, "plain/a": "$(DB_user)", "plain/b": "node $(DB_user)",
	} {
		if files[path] != want || len(files) != 3 {
			t.Errorf("%s = %s, want %s; %d files", path, files[path], want, len(files))
		}
	}
	if !plan.HasSecretValues("app.json") || plan.HasSecretValues("plain/a") || plan.HasSecretValues("plain/b") {
		t.Error("it is not known which file has the value of a Secret")
	}
}

// TestModesOfFilesWithSecrets are no wider than the default mode, as far as reading goes.
func TestModesOfFilesWithSecrets(t *testing.T) {
	t.Parallel()
	v := volume{
		sources:     "[{configMap: {name: app, items: [{key: a, path: secret, mode: 0755, expand: {}}, {key: b, path: plain, mode: 0755, expand: {}}, {key: a, path: default, expand: {}}]}}]",
		values:      "[{secret: {name: db}}, {configMap: {name: more}}]",
		defaultMode: "0440",
		objects:     map[string]map[string]string{"configmap/app": {"a": "$(S)", "b": "$(C)"}, "secret/db": {"S": "1"}, "configmap/more": {"C": "2"}},
	}
	plan, _, err := v.build(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plan.Tree().Files {
		if want := map[string]string{"secret": "-rwxr-x--x", "plain": "-rwxr-xr-x", "default": "-r--r-----"}[f.Path]; f.Mode.String() != want {
			t.Errorf("%s has mode %v, want %s", f.Path, f.Mode, want)
		}
	}
}

// TestValuesThatNoFileNamesAreNotRead: a key of them may be missing. An object may not.
func TestValuesThatNoFileNamesAreNotRead(t *testing.T) {
	t.Parallel()
	v := volume{
		sources: "[{configMap: {name: app}}]", values: "[{secret: {name: db, items: [{key: none, path: A}]}}]",
		objects: map[string]map[string]string{"configmap/app": {"a": "$(A)"}, "secret/db": {}},
	}
	if _, files, err := v.build(t); err != nil || files["a"] != "$(A)" {
		t.Errorf("Prepare makes %q, %v, want the text as it is", files, err)
	}
	delete(v.objects, "secret/db")
	if _, _, err := v.build(t); err == nil || err.Error() != `secret "db" not found` {
		t.Errorf("Prepare = %v without the object of the values, want that it is not found", err)
	}
}

// TestMistakesInFilesWithValues name object, key, line and name, and no value.
func TestMistakesInFilesWithValues(t *testing.T) {
	t.Parallel()
	const expand = "[{configMap: {name: app, expand: {}}}]"
	huge := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		volume

		want string
	}{
		"no value":          {volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": "\n$(NONE)"}}, values: "[]"}, "configmap team/app, key a, line 2: no value is called NONE"},
		"no object":         {volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": ""}}, values: "[{secret: {name: db}}]"}, `secret "db" not found`},
		"no key":            {volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": ""}, "secret/db": {}}, values: "[{secret: {name: db, items: [{key: k, path: A}]}}]"}, "references non-existent secret key: k (secret team/db, values[0].secret.items[0])"},
		"an optional value": {volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": "$(A)"}}, values: "[{secret: {name: db, optional: true}}]"}, "no value is called A"},
		"no such quoting":   {volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": "$(A|xml)"}}, values: "[]"}, `there is no quoting "xml"`},
		"what JSON cannot hold": {
			volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": "$(A|json)"}, "secret/db": {"A": "hunter2\xff"}}, values: "[{secret: {name: db}}]"},
			"configmap team/app, key a, line 1: A: a value that is not text in UTF-8",
		},
		"too much": {
			volume{sources: expand, objects: map[string]map[string]string{"configmap/app": {"a": strings.Repeat("$(A)", 5)}, "secret/db": {"A": huge}}, values: "[{secret: {name: db}}]"},
			"key a of configmap team/app has with its values more than 4 MiB",
		},
	} {
		_, _, err := tt.build(t)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %.300v, want %q", name, err, tt.want)
		}
	}
}

// TestTheLargestFilesWithValues: the largest file, as many of them as fit, and the first byte that does not.
func TestTheLargestFilesWithValues(t *testing.T) {
	t.Parallel()
	const tooMuch = "key %s of configmap team/app has with its values more than 4 MiB, or all such files of the volume more than 16 MiB"
	data := map[string]string{"large": strings.Repeat("$(A)", 4), "larger": strings.Repeat("$(A)", 4) + "x", "none": "", "one": "x"}
	for name, tt := range map[string]struct {
		keys  []string
		wrong string // The key that is too much; empty for none.
	}{
		"a file":                {[]string{"large"}, ""},
		"a byte more":           {[]string{"larger"}, "larger"},
		"all files":             {[]string{"large", "large", "large", "large", "none"}, ""},
		"all files, and a byte": {[]string{"large", "large", "large", "large", "one"}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var items strings.Builder
			for i, key := range tt.keys {
				fmt.Fprintf(&items, "{key: %s, path: p%d},", key, i)
			}
			v := volume{
				sources: "[{configMap: {name: app, expand: {}, items: [" + items.String() + "]}}]", values: "[{configMap: {name: more}}]",
				objects: map[string]map[string]string{"configmap/app": data, "configmap/more": {"A": strings.Repeat("x", 1<<20)}},
			}
			_, files, err := v.build(t)
			if tt.wrong != "" {
				if want := fmt.Sprintf(tooMuch, tt.wrong); err == nil || err.Error() != want {
					t.Fatalf("Prepare = %v, want %s", err, want)
				}
				return
			}
			if err != nil || len(files) != len(tt.keys) {
				t.Fatalf("Prepare makes %d files, %v, want %d", len(files), err, len(tt.keys))
			}
		})
	}
}

// TestKindsOfMistakes: a value may come to be, so a place without one is missing. A value that does not fit is unsupported.
func TestKindsOfMistakes(t *testing.T) {
	t.Parallel()
	for text, isMissing := range map[string]bool{"$(NONE)": true, "$(A|xml)": false} {
		v := volume{sources: "[{configMap: {name: app, expand: {}}}]", objects: map[string]map[string]string{"configmap/app": {"a": text}}, values: "[]"}
		_, _, err := v.build(t)
		_, gotMissing := errors.AsType[*treebuilder.MissingError](err)
		_, gotUnsupported := errors.AsType[*treebuilder.UnsupportedError](err)
		if gotMissing != isMissing || gotUnsupported == isMissing {
			t.Errorf("%s: Prepare = %T, want a *MissingError: %t", text, err, isMissing)
		}
	}
}
