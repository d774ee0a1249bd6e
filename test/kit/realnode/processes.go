package realnode

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes returns the IDs of the processes in the node's pods that run a program, by its file's name.
func (m *Node) Processes(program string) ([]int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, link := range links {
		dir := filepath.Dir(link)
		target, err := os.Readlink(link)
		if err != nil || filepath.Base(target) != program {
			continue // It is another program, or has ended.
		}
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !strings.Contains(string(groups), "/"+m.cgroups.name()+"/") {
			continue // It is not of this node.
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}
