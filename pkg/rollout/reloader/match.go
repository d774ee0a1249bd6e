package reloader

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// The limits of the regular expressions of one list. Anybody may write them. Without repeat counts,
// the time and memory of an expression grow with its length, and the time of a match with the
// length of the name too.
const (
	// longestPattern is how many bytes an expression may have: as many as a name.
	longestPattern = 253
	// mostPatterns is how many expressions a list may have, and mostPatternBytes how many bytes
	// they may have together.
	mostPatterns     = 32
	mostPatternBytes = 4 << 10
	// mostNameBytes is how many bytes the names have together among which expressions may choose.
	mostNameBytes = 16 << 10
)

// list is an annotation that lists sources of a kind, as far as it can be read without what the pod
// template uses. Of a list with too many expressions, only the names count.
type list struct {
	named    []api.Ref
	patterns []string
	mistakes []string
}

// listOf reads the list of a kind. It compiles nothing.
func listOf(annotations map[string]string, kind api.Kind) list {
	var l list
	text, isSet := annotations[ReloadOf(kind)]
	if !isSet {
		return l
	}
	if entries := strings.Count(text, ",") + 1; entries > trigger.MaxObjects {
		l.mistake("it has %d entries, more than %d", entries, trigger.MaxObjects)
		return l
	}
	size := 0
	for _, entry := range names(text) {
		if len(entry) > longestPattern {
			l.mistake("%.260q has %d bytes, more than %d: write the names", entry, len(entry), longestPattern)
			continue
		}
		o, err := trigger.ParseObject(kind.Resource() + "/" + entry)
		if err == nil {
			l.named = append(l.named, o)
			continue
		}
		l.patterns = append(l.patterns, entry)
		size += len(entry)
	}
	switch {
	case len(l.named)+len(l.patterns)+len(l.mistakes) == 0:
		l.mistake("it names nothing: write names with commas between them, or remove it")
	case len(l.patterns) > mostPatterns:
		l.mistake("it has %d regular expressions, more than %d: write the names", len(l.patterns), mostPatterns)
		l.patterns = nil
	case size > mostPatternBytes:
		l.mistake("its regular expressions have %d bytes together, more than %d: write the names", size, mostPatternBytes)
		l.patterns = nil
	}
	return l
}

func (l *list) mistake(format string, args ...any) {
	l.mistakes = append(l.mistakes, fmt.Sprintf(format, args...))
}

// Named returns the sources that lists name, in order and each once. It compiles no regular
// expression, and needs no Used. Mistakes are for Triggers.
func (w Workload) Named() []api.Ref {
	var named []api.Ref
	for _, kind := range kinds() {
		excluded := w.excluded(kind)
		for _, o := range listOf(w.from(kind), kind).named {
			if !excluded[o.Name] {
				named = append(named, o)
			}
		}
	}
	slices.SortFunc(named, trigger.Compare)
	return slices.Compact(named)
}

// Patterns returns the regular expressions that Match compiles, by the kind of the sources.
func (w Workload) Patterns() map[api.Kind][]string {
	all := map[api.Kind][]string{}
	for _, kind := range kinds() {
		if l := listOf(w.from(kind), kind); len(l.patterns) > 0 {
			all[kind] = l.patterns
		}
	}
	return all
}

// Matches are what the regular expressions of lists match, by the kind of the sources. They depend
// on Patterns and Used only.
type Matches map[api.Kind]matches

// matches are the sources that expressions match, each once, and the mistakes of the expressions.
type matches struct {
	found    []api.Ref
	mistakes []string
}

// Match compiles the regular expressions of the lists, and matches them with the names of what the
// pod template uses. That takes time in proportion to Cost.
func (w Workload) Match() Matches {
	all := Matches{}
	for kind, patterns := range w.Patterns() {
		all[kind] = matchAll(patterns, w.used(kind))
	}
	return all
}

// Cost returns how much work Match does, as the number of bytes of volume attributes that the
// controller reads in more time. It is 0 if there is no regular expression.
func (w Workload) Cost() int {
	const (
		perByte      = 16  // For a byte that is compiled.
		stepsPerByte = 512 // A step compares a byte of an expression with a byte of a name.
	)
	cost := 0
	for kind, patterns := range w.Patterns() {
		size := len(strings.Join(patterns, ""))
		cost += size * (perByte + min(bytesOf(w.used(kind)), mostNameBytes)/stepsPerByte)
	}
	return cost
}

// bytesOf returns how many bytes the names of objects have together.
func bytesOf(objects []api.Ref) int {
	size := 0
	for _, o := range objects {
		size += len(o.Name)
	}
	return size
}

// matchAll matches expressions with the names of the used sources.
func matchAll(patterns []string, used []api.Ref) matches {
	var m matches
	if size := bytesOf(used); size > mostNameBytes {
		m.mistakes = []string{fmt.Sprintf("its regular expressions choose among names of %d bytes together, more than %d: "+
			"write the names",
			size, mostNameBytes)}
		return m
	}
	for _, pattern := range patterns {
		found, err := match(pattern, used)
		if err != nil {
			m.mistakes = append(m.mistakes, fmt.Sprintf("%.260q %v", pattern, err))
		}
		m.found = append(m.found, found...)
	}
	slices.SortFunc(m.found, trigger.Compare)
	m.found = slices.Compact(m.found)
	return m
}

// match returns the sources whose whole names match a pattern.
func match(pattern string, used []api.Ref) ([]api.Ref, error) {
	if strings.Contains(pattern, "{") {
		return nil, errors.New("has a brace: write the names")
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("is neither a name nor a regular expression: %w", err)
	}
	expression.Longest() // A match of the whole name is the longest one.
	matched := slices.DeleteFunc(slices.Clone(used), func(o api.Ref) bool {
		return expression.FindString(o.Name) != o.Name
	})
	if len(matched) == 0 {
		return nil, errors.New("matches nothing that the pod template uses: write the names")
	}
	return matched, nil
}
