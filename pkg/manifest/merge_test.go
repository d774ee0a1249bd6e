package manifest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

const deployed = `# The shop.
spec:
  containers: # all of them
    - name: web   # first
      image: web:1
      volumeMounts:
        # for uploads
        - {name: cache, mountPath: /cache}
    - name: sidecar
  volumes:
    - name: cache # a disk
      emptyDir: {}
    - name: old
      emptyDir: {} # goes
`

// TestMerge: what a change leaves alone stays as it is written. The objects have defaults that are in no file.
func TestMerge(t *testing.T) {
	t.Parallel()
	web := func(mounts string) string {
		return `{"spec": {"containers": [{"name": "web", "image": "web:1", "resources": {}, "volumeMounts": [` + mounts + `]},
			{"name": "sidecar", "resources": {}}], "volumes": [{"name": "cache", "emptyDir": {}}`
	}
	const cache = `{"name": "cache", "mountPath": "/cache"}`
	before := web(cache) + `, {"name": "old", "emptyDir": {}}]}}`
	tests := map[string]struct{ text, before, after, want, dropped string }{
		"elements are added to lists": {
			text: deployed, before: before,
			after: web(cache+`, {"name": "app", "mountPath": "/app"}`) + `, {"name": "old", "emptyDir": {}},
				{"name": "app", "csi": {"driver": "d"}}]}}`,
			want: strings.NewReplacer("web   # first", "web # first", "- {name: cache, mountPath: /cache}\n",
				"- {name: cache, mountPath: /cache}\n        - name: app\n          mountPath: /app\n",
				"{} # goes\n", "{} # goes\n    - name: app\n      csi:\n        driver: d\n").Replace(deployed),
		},
		"elements leave lists": {
			text: deployed, before: before, after: web(cache) + `]}}`, dropped: "# goes",
			want: strings.NewReplacer("web   # first", "web # first", "    - name: old\n      emptyDir: {} # goes\n", "").Replace(deployed),
		},
		"an element keeps its other fields": {
			text:   "volumes:\n  - name: a # why\n    csi: {driver: x}\n",
			before: `{"volumes": [{"name": "a", "csi": {"driver": "x"}}]}`,
			after:  `{"volumes": [{"name": "a", "csi": {"driver": "y"}}]}`,
			want:   "volumes:\n  - name: a # why\n    csi: {driver: \"y\"}\n",
		},
		"a field is added, and one removed": {
			text: "a: 1 # one\nb: 2\n", before: `{"a": 1, "b": 2}`, after: `{"a": 1, "c": {"d": "e"}}`,
			want: "a: 1 # one\nc:\n  d: e\n",
		},
		"nothing changes": {text: "a:   1\n", before: `{"a": 1}`, after: `{"a": 1}`, want: "a:   1\n"},
		"JSON stays JSON": {
			text: `{"a": 1, "b": [{"x": 1}]}`, before: `{"a": 1, "b": [{"x": 1}]}`, after: `{"a": 2, "b": [{"x": 1}]}`,
			want: "{\n  \"a\": 2,\n  \"b\": [\n    {\n      \"x\": 1\n    }\n  ]\n}\n",
		},
		"KYAML stays KYAML": {
			text:   "{\n  # why\n  a: 1, # one\n  b: [{\n    name: \"x\",\n  }],\n}\n",
			before: `{"a": 1, "b": [{"name": "x"}]}`, after: `{"a": 1, "b": [{"name": "x"}, {"name": "y"}]}`,
			want: "{\n  # why\n  a: 1, # one\n  b: [{\n    name: \"x\",\n  }, {\n    name: \"y\",\n  }],\n}\n",
		},
		"what two places share is written out": {
			text: "a: &x {b: 1} # shared\nc: *x\n", before: `{"a": {"b": 1}, "c": {"b": 1}}`,
			after: `{"a": {"b": 1}, "c": {"b": 2}}`, want: "a:\n  b: 1\nc:\n  b: 2\n", dropped: "# shared",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := manifest.Parse(manifest.Part{Text: test.text})
			if err != nil {
				t.Fatal(err)
			}
			before, after := decoded(t, test.before), decoded(t, test.after)
			isMeant := func(d manifest.Document) bool {
				return reflect.DeepEqual(withoutDefaults(d.Data), withoutDefaults(after))
			}
			got, dropped, err := document.Merge([]manifest.Change{{Before: before, After: after}}, isMeant)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
			if strings.Join(dropped, " ") != test.dropped {
				t.Errorf("Merge dropped %q, want %q", dropped, test.dropped)
			}
		})
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// withoutDefaults removes empty fields: the API server reads them as fields that are not there.
func withoutDefaults(value any) any {
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for i := range value {
			list[i] = withoutDefaults(value[i])
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, field := range value {
			if name != "resources" {
				object[name] = withoutDefaults(field)
			}
		}
		return object
	}
	return value
}
