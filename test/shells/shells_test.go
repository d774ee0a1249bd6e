// Package shells has the shells that people use complete the plugin's commands. They have to be installed.
package shells

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
)

// program is the plugin as shells find it in the PATH.
const program = "kubectl-liveconfig"

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){program: plugin}) }

// plugin does what the program's main does.
func plugin() {
	os.Exit(cli.Run(context.Background(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:]...))
}

// shells are what people may have, with what completes the words of $LINE in them: each prints what it offers, one per line.
// $SCRIPT is the plugin's script for it.
func shells() map[string]shell {
	return map[string]shell{
		"bash": {[]string{"--norc", "--noprofile"}, []string{
			// Of the package bash-completion the script needs one function, which many machines do not have.
			`_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }`,
			`source "$SCRIPT"`,
			`COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=9 COMP_KEY=9`,
			`read -ra COMP_WORDS <<<"$LINE"; [[ $LINE != *" " ]] || COMP_WORDS+=("")`,
			`COMP_CWORD=$((${#COMP_WORDS[@]} - 1))`,
			`by=$(complete -p kubectl-liveconfig); by=${by##*-F }; "${by%% *}"`,
			`for reply in "${COMPREPLY[@]}"; do echo "${reply%% *}"; done`,
		}},
		"zsh": {[]string{"-f"}, []string{
			`autoload -Uz compinit && compinit -u -D`,
			`source "$SCRIPT"`,
			`_describe() { local c; for c in "${completions[@]}"; do print -r -- "${c%%:*}"; done }`, // It asks the line editor.
			`words=(${=LINE}); [[ $LINE != *" " ]] || words+=(""); CURRENT=$#words`,
			`$_comps[kubectl-liveconfig]`,
		}},
		"fish": {[]string{"--no-config"}, []string{
			`source "$SCRIPT"`,
			`for reply in (complete -C "$LINE"); string split -f 1 \t -- $reply; end; true`,
		}},
	}
}

// shell is how a shell is started, and the lines that it is given.
type shell struct{ args, lines []string }

// TestCompletionInShells has shells complete by the scripts of the plugin.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatalf("%v; type: test/setup.sh %s", err, name)
			}
			script := filepath.Join(t.TempDir(), "script")
			text, err := exec.CommandContext(t.Context(), program, "completion", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(script, text, 0o600); err != nil {
				t.Fatal(err)
			}
			for line, want := range map[string][]string{
				"rollout u":               {"undo"},
				"rollout ":                {"history", "pause", "resume", "undo"},
				"rollout undo dep":        {"deployment/"},
				"convert --to ":           {"in-tree", "liveconfig", "triggers"},
				"set volume --on-delete ": {"Keep", "Remove"},
			} {
				command := exec.CommandContext(t.Context(), path, append(shell.args, "-c", strings.Join(shell.lines, "\n"))...)
				command.Env = append(os.Environ(), "SCRIPT="+script, "LINE="+program+" "+line, "HOME="+t.TempDir())
				var complaints strings.Builder
				command.Stderr = &complaints
				out, err := command.Output()
				if err != nil {
					t.Errorf("complete %q: %v\n%s", line, err, complaints.String())
				}
				got := strings.Fields(string(out))
				if diff := cmp.Diff(set(want), set(got)); diff != "" {
					t.Errorf("completions of %q (-want +got):\n%s%s", line, diff, complaints.String())
				}
			}
		})
	}
}

// set has lists compared whatever order shells put them in.
func set(words []string) []string {
	words = slices.Clone(words)
	slices.Sort(words)
	return words
}
