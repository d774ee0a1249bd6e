package rollout

import (
	"fmt"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// changes names what one config has and another has not.
func changes(from, to trigger.Config) string {
	var texts []string
	uncopied := to.Uncopied()
	for _, o := range to.Objects() {
		name := to[o]
		switch {
		case hasSame(from, o, name):
		case uncopied[o] != "":
			texts = append(texts, fmt.Sprintf("no %s, which triggered this with version %s", o, uncopied[o]))
		case name == "":
			texts = append(texts, o.String()+", which does not exist")
		default:
			texts = append(texts, fmt.Sprintf("%s as %s", o, name))
		}
	}
	for _, o := range from.Objects() {
		if _, stays := to[o]; !stays {
			texts = append(texts, o.String()+" itself")
		}
	}
	return strings.Join(texts, ", ")
}

// hasSame reports whether a config has an object with this version already.
func hasSame(c trigger.Config, o api.Ref, version string) bool {
	before, found := c[o]
	return found && before == version
}
