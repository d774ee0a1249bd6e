package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
)

// TestHelp compares the help of every command with testdata/help. LIVECONFIG_UPDATE=1 writes the files again.
func TestHelp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "help")
	var wanted []string
	for _, c := range commands(cli.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})) {
		words := strings.Fields(c.CommandPath()) // Of which the first two are kubectl liveconfig.
		file := filepath.Join(dir, strings.Join(words[1:], "-")+".golden")
		wanted = append(wanted, file)
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			got := help(t, words[2:])
			if os.Getenv("LIVECONFIG_UPDATE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: run with LIVECONFIG_UPDATE=1", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("help (-want +got), LIVECONFIG_UPDATE=1 writes it:\n%s", diff)
			}
		})
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		if !slices.Contains(wanted, file) {
			t.Errorf("%s is of no command, remove it", file)
		}
	}
}

// commands returns a command and all below it that people see.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, commands(below)...)
		}
	}
	return all
}

// help runs the plugin in a home that is not this machine's, which some defaults of flags show.
func help(t *testing.T, words []string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, append(words, "--help")...)
	c.Env = []string{"HOME=/home/you", "PATH=" + os.Getenv("PATH")}
	text, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
