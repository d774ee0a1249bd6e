package cli_test

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// commandsWithObjects are those whose arguments are objects.
const commandsWithObjects = 19

// TestCommandsDeclareKinds: a command that takes objects declares their kinds, and no other does. The shell offers each kind.
func TestCommandsDeclareKinds(t *testing.T) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	found := 0
	for _, c := range commandsOf(cli.New(streams)) {
		kinds := session.KindsOf(c)
		takesObjects := strings.Contains(c.Use, "TYPE/NAME") || strings.Contains(c.Use, "deployment/NAME") ||
			strings.Contains(c.Use, "pod/NAME")
		if takesObjects != (len(kinds) > 0) || takesObjects != (c.ValidArgsFunction != nil) {
			t.Errorf("%s: the kinds are %v, and arguments are completed: %t, want both or none", c.UseLine(), kinds, c.ValidArgsFunction != nil)
		}
		if !takesObjects || c.ValidArgsFunction == nil {
			continue
		}
		found++
		offered, _ := c.ValidArgsFunction(c, nil, "")
		if got, want := strings.Join(offered, " "), strings.Join(kinds, "/ ")+"/"; got != want {
			t.Errorf("%s: the shell offers %q, want %q", c.CommandPath(), got, want)
		}
	}
	if found != commandsWithObjects {
		t.Errorf("%d commands take objects, want %d", found, commandsWithObjects)
	}
}
