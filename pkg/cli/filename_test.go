package cli_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// These are no more than there are: a walk that finds fewer has missed some.
const (
	commandsWithFiles     = 13
	commandsWithKustomize = 2
)

// TestNoFlagCanFetch: every flag that names manifests or a kustomization refuses URLs when it is set. Tests of the kustomizer
// show that it refuses those in a kustomization.
func TestNoFlagCanFetch(t *testing.T) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	found, rendering := 0, 0
	for _, c := range commandsOf(cli.New(streams)) {
		kustomize := c.Flags().Lookup("kustomize")
		if kustomize != c.Flags().ShorthandLookup("k") {
			t.Errorf("%s: --kustomize and -k are different flags", c.CommandPath())
		}
		if kustomize != nil {
			rendering++
			if _, ok := kustomize.Value.(*selection.Kustomization); !ok {
				t.Errorf("%s: --kustomize is a %T, want one that refuses URLs", c.CommandPath(), kustomize.Value)
			}
		}
		long, short := c.Flags().Lookup("filename"), c.Flags().ShorthandLookup("f")
		if long != short {
			t.Errorf("%s: --filename and -f are different flags", c.CommandPath())
		}
		if long == nil {
			continue
		}
		found++
		if _, ok := long.Value.(*selection.Filenames); !ok {
			t.Errorf("%s: --filename is a %T, want one that refuses URLs", c.CommandPath(), long.Value)
		}
	}
	if found < commandsWithFiles {
		t.Errorf("%d commands have --filename, want %d or more", found, commandsWithFiles)
	}
	if rendering < commandsWithKustomize {
		t.Errorf("%d commands have --kustomize, want %d or more", rendering, commandsWithKustomize)
	}
}

// TestNoCommandFetches has each command with -f or -k get a URL: no request is sent, and the error prints what to type.
func TestNoCommandFetches(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.NotFound(w, nil)
	}))
	t.Cleanup(server.Close)
	all, _, _, _ := genericiooptions.NewTestIOStreams()
	for _, c := range commandsOf(cli.New(all)) {
		if c.Flags().Lookup("filename") == nil {
			continue
		}
		words := strings.Fields(c.CommandPath())[2:]
		for _, url := range []string{server.URL + "/web.yaml", strings.Replace(server.URL, "http", "HTTP", 1) + "/web.yaml", "web.yaml," + server.URL} {
			streams, _, _, stderr := genericiooptions.NewTestIOStreams()
			args := append(words, "-f", url) //nolint:gocritic // Words has no room behind it.
			if c.Flags().Lookup("local") != nil {
				args = append(args, "--local")
			}
			code := cli.Run(t.Context(), streams, args...)
			fetched, _ := strings.CutPrefix(url, "web.yaml,")
			for _, want := range []string{
				"`curl -fsSLO '" + fetched + "'`",
				"`curl -fsSL '" + fetched + "' | " + c.CommandPath() + " -f -`",
			} {
				if code == 0 || !strings.Contains(stderr.String(), want) {
					t.Errorf("%s -f %s = %d, %s, want an error with %s", c.CommandPath(), url, code, stderr, want)
				}
			}
		}
		if c.Flags().Lookup("kustomize") == nil {
			continue
		}
		streams, _, _, stderr := genericiooptions.NewTestIOStreams()
		code := cli.Run(t.Context(), streams, append(slices.Clone(words), "-k", server.URL+"/web")...)
		want := "`kubectl kustomize '" + server.URL + "/web' | " + c.CommandPath() + " -f -`"
		if code == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s -k URL = %d, %s, want an error with %s", c.CommandPath(), code, stderr, want)
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("the commands sent %d requests to the server of the URL, want none", n)
	}
}

// commandsOf returns a command and all below it, hidden ones too.
func commandsOf(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, below := range c.Commands() {
		all = append(all, commandsOf(below)...)
	}
	return all
}
