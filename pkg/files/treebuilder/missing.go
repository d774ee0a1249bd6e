package treebuilder

import (
	"fmt"
	"slices"
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

// MissingError is returned by [Build] when required objects or keys do not exist. Its text
// begins as the kubelet's.
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
	texts := slices.Clone(p.first)
	if more := len(p.seen) - len(p.first); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

func (p *problems) any() bool { return len(p.first) > 0 }

func (p *problems) add(problem string) { p.addOnce(problem, problem) }

// addOnce adds a problem, unless there is one with the same ID.
func (p *problems) addOnce(id, problem string) {
	if p.seen[id] {
		return
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[id] = true
	if len(p.first) < maxProblems {
		p.first = append(p.first, problem)
	}
}

// missingKey is a key that an object does not have.
type missingKey struct {
	ref api.Ref
	key string
}

// id is equal for items that name the same key of the same object.
func (m missingKey) id() string { return m.ref.String() + " " + m.key }

// text begins as the kubelet's, for people who search for that, and goes on with the object and the
// item, which the kubelet does not name.
func (m missingKey) text(item string) string {
	begin := "references non-existent secret key: "
	if m.ref.Kind == api.ConfigMap {
		begin = "configmap references non-existent config key: "
	}
	return fmt.Sprintf("%s%s (%s, %s)", begin, shown(m.key), m.ref, item)
}

// fieldOfItems names the items of a source as they stand in the attributes. One source alone may
// stand there in the short form or in the long one, which both have items.
func fieldOfItems(spec api.Spec, source int) string {
	if len(spec.Sources) == 1 {
		return api.KeyItems
	}
	return fmt.Sprintf("%s[%d].%s.%s", api.KeySources, source, fieldOf(spec.Sources[source].Ref.Kind), api.KeyItems)
}

func fieldOf(kind api.Kind) string {
	if kind == api.ConfigMap {
		return api.KeyConfigMap
	}
	return api.KeySecret
}

// shown is a key as a message repeats it. An item may name anything: what could be taken for a part
// of the message, or would fill it, is quoted and cut.
func shown(key string) string {
	if len(key) <= longestKey && len(strconv.Quote(key)) == len(key)+len(`""`) && !strings.ContainsAny(key, " []:;,") {
		return key
	}
	return strconv.Quote(api.Shorten(key))
}
