package krew

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestThePluginRunsElsewhereToo: none of the plugin's packages calls Linux. The soak builds it for the
// other systems, which takes minutes.
func TestThePluginRunsElsewhereToo(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir, cmd.Env = repo, append(os.Environ(), "GOOS="+system, "GOWORK=off", "CGO_ENABLED=0")
				text, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, text)
				}
				return string(text)
			}
			const format = `{{with .Module}}{{if .Main}}{{$.ImportPath}}{{range $.Imports}} {{.}}{{end}}{{end}}{{end}}`
			packages := 0
			for line := range strings.Lines(run("list", "-deps", "-f", format, "./cmd/kubectl-liveconfig")) {
				name, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
				if name == "" {
					continue
				}
				packages++
				for i := range strings.FieldsSeq(imports) {
					if i == "golang.org/x/sys/unix" {
						t.Errorf("%s imports %s, and the plugin is built for %s too", name, i, system)
					}
				}
			}
			if packages < 10 {
				t.Errorf("the plugin has %d packages of this module, want more: nothing was checked", packages)
			}
			if soak.Rounds(0, 1) > 0 {
				run("build", "-o", os.DevNull, "./cmd/kubectl-liveconfig")
			}
		})
	}
}
