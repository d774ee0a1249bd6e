package api_test

import (
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestMistakesInMountPoints: each mistake names the entry by its number.
func TestMistakesInMountPoints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"no list":       {"a", `mountPoints: Invalid value: "a": must be a list, not a string: write [custom, conf.d/extra]`},
		"no YAML":       {"[", "mountPoints: Invalid value: \"[\": must be YAML or JSON: "},
		"a number":      {"[a, 7]", "mountPoints[1]: Invalid value: 7: must be a string, not a number: put it in quotes"},
		"an empty path": {`[""]`, "mountPoints[0]: Required value: must not be empty, write where in the volume containers mount something"},
		"absolute":      {"[/a]", `mountPoints[0]: Invalid value: "/a": must be relative to the volume, drop the slash in front`},
		"outside":       {"[a, ../b]", `mountPoints[1]: Invalid value: "../b": must not contain the element ".."`},
		"reserved":      {"[..data]", `mountPoints[0]: Invalid value: "..data": must not start with "..", such names are reserved`},
		"the volume":    {"[./]", `mountPoints[0]: Invalid value: "./": must name a place in the volume, and it means the volume itself`},
		"twice":         {"[a, ./a]", `mountPoints[1]: Duplicate value: "a": mountPoints[0] means the same place, keep one`},
		"no path":       {"[{ifAbsent: true}]", "mountPoints[0].path: Required value: write where in the volume containers mount something"},
		"no boolean":    {`[{path: a, ifAbsent: "true"}]`, `mountPoints[0].ifAbsent: Invalid value: "true": must be a boolean, not a string: drop the quotes`},
		"another field": {"[{path: a, mode: 7}]", "mountPoints[0].mode: Forbidden: unknown field, known are path, ifAbsent"},
		"a bad path":    {"[{path: /a}]", `mountPoints[0].path: Invalid value: "/a": must be relative`},
		"twice, by object": {
			"[a, {path: a/, ifAbsent: true}]", `mountPoints[1].path: Duplicate value: "a": mountPoints[0] means the same place, keep one`,
		},
		"too deep":      {"[" + strings.Repeat("a/", 64) + "a]", "must have at most 64 elements, not 65"},
		"too long":      {"[" + strings.Repeat("a", 256) + "]", "must have at most 255 bytes between slashes"},
		"too many":      {"[" + numbered("n%d,", 65) + "]", "mountPoints: Invalid value: 65: the most for a volume is 64, this makes 65: use two volumes"},
		"too much text": {strings.Repeat(" ", 65<<10), "mountPoints: Too long: may not be more than 65536 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := api.Parse(attributes{"configMap": "app", "mountPoints": test.in}, "default")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse error = %v, want %s", err, test.want)
			}
		})
	}
}
