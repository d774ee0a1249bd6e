package treebuilder

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

const (
	// maxProblems is how many problems a [MissingError] or an [UnsupportedError] lists. The message
	// ends up in an Event.
	maxProblems = 20
	// longestKey is how many bytes a key of an object may have.
	longestKey = 253
)

// MissingError is returned by [Build] when required objects or keys do not exist. Its text is the
// kubelet's.
type MissingError struct{ problems }

// problems is what is wrong, each thing once.
type problems struct {
	first []string
	seen  map[string]bool // All of them.
}

// Error returns one problem as it is, and several as «[a, b]» with equal texts once.
func (p *problems) Error() string {
	texts := p.Problems()
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// Problems returns what is wrong, one text for each thing, each once. After 20 of them a last text
// counts the rest. The list is the caller's.
func (p *problems) Problems() []string {
	texts := append(make([]string, 0, len(p.first)+1), p.first...)
	if more := len(p.seen) - len(p.first); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

func (p *problems) any() bool { return len(p.first) > 0 }

func (p *problems) add(problem string) {
	if p.seen[problem] {
		return
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[problem] = true
	if len(p.first) < maxProblems {
		p.first = append(p.first, problem)
	}
}

// missingKey has the text of the kubelet, which names the kind for ConfigMaps only.
func missingKey(kind api.Kind, key string) string {
	if kind == api.ConfigMap {
		return "configmap references non-existent config key: " + shown(key)
	}
	return "references non-existent secret key: " + shown(key)
}

// shown is a key as a message repeats it. An item may name anything: what could be taken for a part
// of the message, or would fill it, is quoted and cut.
func shown(key string) string {
	readable := len(strconv.Quote(key)) == len(key)+len(`""`) && !strings.ContainsAny(key, " []:;,")
	if readable && len(key) <= longestKey {
		return key
	}
	return strconv.Quote(api.Shorten(key))
}
