package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// TestFindings checks pods that have a right volume but for the change of each case. Lines are
// counted from that.
func TestFindings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		csi  string // Lines of the volume from attributes on.
		want []string
	}{
		"a right one":                  {"volumeAttributes: {configMap: a}", nil},
		"an attribute":                 {"volumeAttributes:\n  configMap: a\n  uid: x", []string{"3 volumeAttributes.uid: Invalid value"}},
		"inside a block":               {"volumeAttributes:\n  secret: a\n  items: |-\n    # why\n    - key: k", []string{"5 volumeAttributes.items[0].path: Required"}},
		"a block that is not YAML":     {"volumeAttributes:\n  secret: a\n  items: |\n    [a", []string{"3 volumeAttributes.items: Invalid value"}},
		"inside a text in quotes":      {"volumeAttributes:\n  secret: a\n  items: \"[{key: k}]\"", []string{"3 volumeAttributes.items[0].path: Required"}},
		"no attributes":                {"volumeAttributes: {}", []string{"1 volumeAttributes.configMap: Required"}},
		"no attributes at all":         {"fsType: x", []string{"-1 volumeAttributes.configMap: Required"}},
		"attributes that are a list":   {"volumeAttributes: [a]", []string{"1 volumeAttributes: must be an object"}},
		"a number":                     {"volumeAttributes: {configMap: 12}", []string{"1 volumeAttributes.configMap: must be a string: write configMap: \"12\""}},
		"a mode without quotes":        {"volumeAttributes: {configMap: a, defaultMode: 0440}", []string{"1 volumeAttributes.defaultMode: must be a string: write defaultMode: \"0440\""}},
		"a truth":                      {"volumeAttributes: {configMap: a, optional: yes}", []string{"1 volumeAttributes.optional: must be a string: write optional: \"true\""}},
		"a list of sources":            {"volumeAttributes:\n  sources: [{configMap: {name: a}}]", []string{"2 volumeAttributes.sources: must be a string: write sources: |"}},
		"nothing written":              {"volumeAttributes:\n  configMap:", []string{"2 volumeAttributes.configMap: must be a string: write a text"}},
		"an attribute with odd signs":  {"volumeAttributes:\n  configMap: a\n  \"x y\": a", []string{`3 volumeAttributes."x y": Forbidden: unknown attribute`}},
		"an attribute with dots":       {"volumeAttributes:\n  configMap: a\n  items.optional: a", []string{`3 volumeAttributes.items.optional: Forbidden`}},
		"a field that is not known":    {"volumeAttributes: {configMap: a}\nvolumeattributes: {}", []string{"2 volumeattributes: unknown field"}},
		"an attribute twice":           {"volumeAttributes:\n  configMap: b\n  configMap: a", []string{"2 volumeAttributes.configMap: it is written more than once"}},
		"another source of the volume": {"volumeAttributes: {configMap: a}\n%emptyDir: {}", []string{"2 emptyDir: a volume has one source"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "kind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]\n" +
				"  volumes:\n    - name: v\n      csi:\n        driver: csi.liveconfig.internal\n        readOnly: true\n"
			before := strings.Count(text, "\n")
			for line := range strings.SplitSeq(test.csi, "\n") {
				indent := strings.Repeat(" ", 8)
				if rest, found := strings.CutPrefix(line, "%"); found {
					indent, line = strings.Repeat(" ", 6), rest
				}
				text += indent + line + "\n"
			}
			found, count := review(text)
			if count != 1 {
				t.Errorf("%d volumes were checked, want 1", count)
			}
			var got []string
			for _, f := range found {
				field := strings.TrimPrefix(strings.TrimPrefix(f.Field, "spec.volumes[0]."), "csi.")
				got = append(got, fmt.Sprintf("%d %s: %s", f.Line-before, field, f.Message))
			}
			same := slices.EqualFunc(got, test.want, strings.HasPrefix)
			if !same {
				t.Errorf("findings (-want +got):\n%s", cmp.Diff(test.want, got))
			}
		})
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mounts, attributes string
		want               []string
	}{
		"of a missing volume":          {"[{name: v, mountPath: /v}, {name: w, mountPath: /w}]", "", []string{`mistake: there is no volume "w"`}},
		"at one path":                  {"[{name: v, mountPath: /v}, {name: v, mountPath: /v}]", "", []string{"mistake: /v is that of"}},
		"of a part":                    {"[{name: v, mountPath: /v, subPath: a}]", "", []string{"warning: updates do not reach"}},
		"of a part, by a variable":     {"[{name: v, mountPath: /v, subPathExpr: $(A)}]", "", []string{"warning: updates do not reach"}},
		"of a part that follows":       {"[{name: v, mountPath: /v, subPath: a}]", ", updatePolicy: InPlace", nil},
		"of a part that never follows": {"[{name: v, mountPath: /v, subPath: a}]", ", updatePolicy: Never", nil},
		"in each other":                {"[{name: v, mountPath: /v/}, {name: v, mountPath: /v/w}]", "", []string{"warning: /v/w is mounted inside /v/"}},
		"beside each other":            {"[{name: v, mountPath: /v}, {name: v, mountPath: /vw}]", "", nil},
		"none":                         {"[]", "", []string{`warning: no container mounts volume "v"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, _ := review("spec:\n  containers: [{name: c, volumeMounts: " + test.mounts + "}]\n" +
				"  volumes: [{name: v, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {configMap: a" + test.attributes + "}}}]\n")
			var got []string
			for _, f := range found {
				got = append(got, string(f.Severity)+": "+f.Message)
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("findings (-want +got):\n%s", cmp.Diff(test.want, got))
			}
		})
	}
}

// TestWhatPodsAreMadeOf checks manifests that hold only a part of a pod, or make another part of
// it.
func TestWhatPodsAreMadeOf(t *testing.T) {
	t.Parallel()
	const volume = "{name: v, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {configmap: a}}}"
	tests := map[string]struct{ text string }{
		"a patch without containers": {text: "spec: {template: {spec: {volumes: [" + volume + "]}}}"},
		"a patch that removes, too":  {text: "spec: {template: {spec: {volumes: [{name: w, $patch: delete}, " + volume + "]}}}"},
		"a claim of a StatefulSet": {text: "kind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {volumes: [" +
			volume + "], containers: [{volumeMounts: [{name: v, mountPath: /v}, {name: data, mountPath: /data}]}]}}}"},
	}
	for name, test := range tests {
		found, count := review(test.text)
		if count != 1 || len(found) != 1 || !strings.HasSuffix(found[0].Field, "volumeAttributes.configmap") {
			t.Errorf("%s: findings of %d volumes are %v, want the one about configmap, of one volume", name, count, found)
		}
	}
	other := "kind: List\nitems:\n- kind: StatefulSet\n  spec: {volumeClaimTemplates: [{metadata: {name: data}}]}\n" +
		"- kind: Pod\n  spec: {volumes: [" + strings.Replace(volume, "configmap", "configMap", 1) + "], containers: [{volumeMounts: [{name: v, mountPath: /v}, {name: data, mountPath: /d}]}]}\n"
	if found, _ := review(other); len(found) != 1 || !strings.Contains(found[0].Message, `no volume "data"`) {
		t.Errorf("findings are %v, want that data is a volume of another object alone", found)
	}
}

func review(text string) (findings []check.Finding, volumesChecked int) {
	checker := check.Checker{Driver: selection.Driver, Namespace: "default"}
	checker.File(manifest.File{Name: "x.yaml", Text: text})
	return checker.Findings, checker.Checked.Volumes
}
