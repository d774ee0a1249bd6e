package realnode

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// freePodRange returns addresses that no pod of an earlier machine of this process has. The kernel takes their links away when
// it comes to it, and until then their routes would lead packets for new pods to them.
func freePodRange() (string, error) {
	routes, err := os.ReadFile("/proc/thread-self/net/route")
	if err != nil {
		return "", fmt.Errorf("read routes: %w", err)
	}
	return freeRange(string(routes))
}

// freeRange returns the first range to which there is no route, by the kernel's table.
func freeRange(routes string) (string, error) {
	taken := map[string]bool{}
	for line := range strings.Lines(routes) {
		if fields := strings.Fields(line); len(fields) > 1 && len(fields[1]) == 8 {
			taken[fields[1][2:]] = true // The last byte of an address comes first.
		}
	}
	for i := range 256 {
		if !taken[fmt.Sprintf("%02X620A", i)] {
			return fmt.Sprintf("10.98.%d.0/24", i), nil
		}
	}
	return "", errors.New("pods of earlier machines have all ranges of addresses")
}
