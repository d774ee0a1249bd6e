package status

import (
	"maps"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// remarkUnasked prints which nodes could not be asked, and why: those for one reason together.
func remarkUnasked(s *session.Session, answers map[string]nodes.Answer) {
	groups := map[string][]*nodes.Unavailable{}
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[node].Err; err != nil {
			why := err.Reason() + strings.ReplaceAll(err.Type, node, "NODE")
			groups[why] = append(groups[why], err)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(groups)) {
		var names []string
		for _, err := range groups[why] {
			names = append(names, err.Node)
		}
		first := groups[why][0]
		s.Remark("the driver cannot be asked on %s: %s; see %s", printing.Names(names, "node", "nodes"), first.Reason(), first.Type)
	}
}
