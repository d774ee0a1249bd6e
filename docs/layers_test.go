package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layers are the packages in their order: one may import those after it and none before it. One stands for the packages
// below it too, unless these have separate lines.
func layers() []string {
	return []string{
		"cmd/liveconfig-driver",
		"cmd/liveconfig-controller",
		"cmd/kubectl-liveconfig",
		"cmd/liveconfig-exec",
		"cmd/liveconfig-reload",
		"pkg/cli",
		"pkg/nodes",
		"pkg/rollout",
		"pkg/rollout/plan",
		"pkg/rollout/state",
		"pkg/rollout/template",
		"pkg/rollout/copies",
		"pkg/rollout/workload",
		"pkg/rollout/reloader",
		"pkg/rollout/trigger",
		"pkg/release/controller",
		"pkg/nodetaint",
		"pkg/driver/nodeserver",
		"pkg/driver/volume",
		"pkg/driver/readiness",
		"pkg/driver/csidriver",
		"pkg/driver/manifestsource",
		"pkg/driver/source",
		"pkg/driver/objectwatch",
		"pkg/driver/access",
		"pkg/driver/state",
		"pkg/driver/budget",
		"pkg/driver/flowcontrol",
		"pkg/driver/lockdown",
		"pkg/files/treebuilder",
		"pkg/files/atomicdir",
		"pkg/files/volumefs",
		"pkg/files/expansion",
		"pkg/files/rendering",
		"pkg/files/tree",
		"pkg/files/mountns",
		"pkg/exec",
		"pkg/manifest",
		"pkg/api/statusz",
		"pkg/daemon",
		"pkg/daemon/server",
		"pkg/daemon/telemetry",
		"pkg/daemon/kubeclient",
		"pkg/daemon/clientmetrics",
		"pkg/daemon/workloop",
		"pkg/daemon/fairqueue",
		"pkg/daemon/logkeys",
		"pkg/daemon/version",
		"pkg/api/attributes",
		"pkg/release/stable",
		"pkg/release/plan",
		"pkg/release/validation/isolated",
		"pkg/release/validation",
		"pkg/release/settings",
		"pkg/release",
		"pkg/api",
		"pkg/files/dotenv",
		"pkg/files/layout",
		"pkg/expect",
	}
}

// TestImportsPointDown: every package has a place in the order, and imports none that is before it.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	const module = "github.com/liveconfig-csi/liveconfig/"
	places := map[string]int{}
	for i, layer := range layers() {
		places[layer] = i + 1
		if info, err := os.Stat(filepath.Join(repo, layer)); err != nil || !info.IsDir() {
			t.Errorf("the order has %s, which does not exist", layer)
		}
	}
	place := func(pkg string) int {
		for places[pkg] == 0 && strings.Contains(pkg, "/") {
			pkg = filepath.Dir(pkg)
		}
		return places[pkg]
	}
	for _, folder := range folders(t) {
		if place(folder) == 0 {
			t.Errorf("%s has no place in the order: write it into layers()", folder)
		}
		for _, file := range parse(t, folder) {
			for _, spec := range file.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				imported, isOurs := strings.CutPrefix(path, module)
				if below := place(imported); isOurs && below > 0 && below < place(folder) {
					t.Errorf("%s imports %s, which is before it in the order", folder, imported)
				}
			}
		}
	}
}

// TestPackagesHaveComments: `go doc` describes each package. The comment begins with the name of the package, or of the
// command.
func TestPackagesHaveComments(t *testing.T) {
	t.Parallel()
	for _, folder := range folders(t) {
		want := "Package " + filepath.Base(folder) + " "
		if strings.HasPrefix(folder, "cmd/") {
			want = "Command " + filepath.Base(folder) + " "
		}
		paths, err := filepath.Glob(filepath.Join(repo, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var comments []string
		for _, path := range paths {
			file, _ := parseWithComments(t, path)
			if strings.HasSuffix(path, "_test.go") || file.Doc == nil {
				continue
			}
			comments = append(comments, file.Doc.Text())
		}
		if len(comments) != 1 || !strings.HasPrefix(comments[0], want) {
			t.Errorf("%s has the comments %q, want one that begins with %q", folder, comments, want)
		}
	}
}
