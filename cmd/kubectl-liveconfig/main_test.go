package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/cli"
)

// TestPageOfFlags compares the flags of all commands with docs/flags.md. Flags that kubectl's own
// commands have too, such as --namespace, belong to the root command and are left out.
func TestPageOfFlags(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	docs.Table{
		Page: "flags.md", Name: "kubectl liveconfig", Columns: []string{"command and flag", "meaning", "default"}, Rows: rows(cli.New(streams)),
	}.Compare(t)
}

func rows(command *cobra.Command) [][]string {
	var all [][]string
	name := strings.TrimPrefix(command.CommandPath(), "kubectl liveconfig ")
	if command.HasParent() {
		command.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			row := docs.Flag(f.Name, f.Usage, strings.TrimSuffix(strings.TrimPrefix(f.DefValue, "[]"), "false"))
			row[0] = "`" + name + " " + strings.Trim(row[0], "`") + "`"
			all = append(all, row)
		})
	}
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, rows(below)...)
		}
	}
	return all
}

// TestNothingOfTheDriverIsLinked: the plugin has no watch cache, budget or flow control, which are the driver's, and no controller.
func TestNothingOfTheDriverIsLinked(t *testing.T) {
	t.Parallel()
	const module = "github.com/liveconfig-csi/liveconfig/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for linked := range strings.FieldsSeq(string(out)) {
		path, isOurs := strings.CutPrefix(linked, module)
		if !isOurs {
			continue
		}
		found++
		for _, unwanted := range []string{"pkg/driver", "pkg/rollout/plan", "pkg/release/controller", "pkg/nodetaint", "pkg/daemon/kubeclient"} {
			if path == unwanted || strings.HasPrefix(path, unwanted+"/") || path == "pkg/rollout" {
				t.Errorf("%s is linked: what the plugin needs of it is pure, and belongs into pkg/api", path)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d packages of the module are linked, want 20 or more", found)
	}
}
