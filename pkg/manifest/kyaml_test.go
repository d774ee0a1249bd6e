package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// asGot is a manifest as `kubectl get -o kyaml` prints it, and with comments of people.
const asGot = `---
# The web server.
{
  kind: "Pod",
  metadata: {
    name: "web", # named so
  },
  spec: {
    # All volumes.
    volumes: [{
      name: "app", # settings
      configMap: {
        # what is in it
        name: "app",
        defaultMode: 288,
      },
    }, {
      name: "tmp",
      emptyDir: {},
    }],
  },
}
`

// TestKYAML: a document in braces with comments stays one, in the form of kubectl; JSON stays JSON.
func TestKYAML(t *testing.T) {
	t.Parallel()
	live := strings.Replace(asGot, `      configMap: {
        # what is in it
        name: "app",
        defaultMode: 288,
      },
`, `      # what is in it
      csi: {
        driver: "liveconfig",
      },
`, 1)
	for name, test := range map[string]struct{ text, want string }{
		"as kubectl prints it": {asGot, live},
		"without a separator":  {strings.TrimPrefix(asGot, "---\n"), strings.TrimPrefix(live, "---\n")},
		"JSON": {
			`{"spec": {"volumes": [{"configMap": {"name": "app"}}]}}`,
			"{\n  \"spec\": {\n    \"volumes\": [\n      {\n        \"csi\": {\n          \"driver\": \"liveconfig\"\n        }\n      }\n    ]\n  }\n}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, part := range (manifest.File{Text: test.text}).Parts() {
				got.WriteString(rewritten(t, part))
			}
			if diff := cmp.Diff(test.want, got.String()); diff != "" {
				t.Errorf("Replace (-want +got):\n%s", diff)
			}
		})
	}
}

// rewritten replaces the first volume of a document.
func rewritten(t *testing.T, part manifest.Part) string {
	t.Helper()
	if part.IsSeparator {
		return part.Text
	}
	document, err := manifest.Parse(part)
	if err != nil {
		t.Fatal(err)
	}
	text, dropped, err := document.Replace([]manifest.Replacement{{
		Object: manifest.ParsePath("spec.volumes[0]"), From: "configMap", To: "csi", Value: map[string]any{"driver": "liveconfig"},
	}})
	if err != nil || len(dropped) > 0 {
		t.Fatalf("Replace dropped %q, %v", dropped, err)
	}
	return text
}
