package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/userlimits"
)

// TestInotifyIsUsedUp: a neighbour must not keep the program from starting, nor from following changes. This is fault 43.
func TestInotifyIsUsedUp(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	for limit, name := range map[userlimits.Limit]string{
		userlimits.InotifyInstances: "fs.inotify.max_user_instances", userlimits.InotifyWatches: "fs.inotify.max_user_watches",
	} {
		userlimits.Set(t, limit, 0)
		dir := t.TempDir()
		write(t, dir, "A", "1")
		p := start(t, asAnother, []string{"--from", dir, "--on-change=restart"}, "show", "A")
		p.says(t, "ready A=1")
		p.says(t, "serving")
		p.stderr.waitFor(t, name)
		for _, value := range []string{"2", "3"} {
			write(t, dir, "A", value)
			p.says(t, "terminated")
			p.says(t, "ready A="+value)
			p.says(t, "serving")
		}
		if got := strings.Count(p.stderr.String(), name); got != 1 {
			t.Errorf("the limit is named %d times, want once; standard error:\n%s", got, p.stderr)
		}
		p.sends(t, unix.SIGTERM)
		p.ends(t, "terminated\n", 0)
		userlimits.Set(t, limit, 1000)
	}
}
