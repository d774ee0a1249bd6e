package main

import (
	"strings"
	"testing"

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
		p, dir := startIn(t, asAnother, []string{"--on-change=restart"}, "show", "A")
		p.isServing(t, "A=1")
		p.Stderr.WaitFor(t, name)
		for _, value := range []string{"2", "3"} {
			write(t, dir, "A", value)
			p.restarts(t, "A="+value)
		}
		if got := strings.Count(p.Stderr.String(), name); got != 1 {
			t.Errorf("the limit is named %d times, want once; standard error:\n%s", got, p.Stderr)
		}
		p.terminates(t)
		userlimits.Set(t, limit, 1000)
	}
}
