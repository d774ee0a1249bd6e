package realnode

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// Processes returns the IDs of the processes in the node's pods that run a program, by its file's name.
func (m *Node) Processes(program string) ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, p := range all {
		path, err := p.Executable()
		if err != nil || filepath.Base(path) != program {
			continue // It is another program, or has ended.
		}
		groups, err := p.Cgroups()
		isHere := func(g procfs.Cgroup) bool { return strings.Contains(g.Path, "/"+m.cgroups.name()+"/") }
		if err == nil && slices.ContainsFunc(groups, isHere) {
			found = append(found, p.PID)
		}
	}
	return found, nil
}
