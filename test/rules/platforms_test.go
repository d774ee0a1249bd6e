package rules

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// unixOnly are packages without most of what they have on Linux where a program is built for another system.
const unixOnly = "golang.org/x/sys/unix"

// TestThePluginIsForEverySystem: krew has the plugin for other systems too. To build it for each takes minutes; this finds what
// has broken it: a package of ours for Linux alone.
func TestThePluginIsForEverySystem(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"windows", "darwin"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}}: {{join .Imports " "}}`, "./cmd/kubectl-liveconfig")
		cmd.Dir, cmd.Env = repo, append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		list, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		ours := 0
		for line := range strings.Lines(string(list)) {
			name, imports, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if !strings.HasPrefix(name, "github.com/liveconfig-csi/liveconfig/") {
				continue
			}
			ours++
			if strings.Contains(" "+imports+" ", " "+unixOnly+" ") {
				t.Errorf("on %s the plugin needs %s, which imports %s", system, name, unixOnly)
			}
		}
		if ours < 10 {
			t.Errorf("on %s the plugin has %d packages of ours, want more", system, ours)
		}
	}
}
