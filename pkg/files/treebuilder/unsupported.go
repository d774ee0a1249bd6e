package treebuilder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// UnsupportedError is returned by [Build] if a combined file cannot hold a key, if the combined
// files of a volume would be too large, or if there are too many keys. It names keys and holds no
// value.
type UnsupportedError struct{ problems }

// mostOffenders is how many keys a problem names.
const mostOffenders = 5

// offenders are the names that a file cannot hold for one reason: the first few in sorted order,
// and how many there are. An object may have a hundred thousand.
type offenders struct {
	first []string
	count int
}

// with returns the offenders and one more. Nil means none.
func (o *offenders) with(name string) *offenders {
	if o == nil {
		o = &offenders{}
	}
	o.count++
	at, _ := slices.BinarySearch(o.first, name)
	o.first = slices.Insert(o.first, at, name)
	o.first = o.first[:min(len(o.first), mostOffenders)]
	return o
}

func (o *offenders) String() string {
	names := make([]string, len(o.first))
	for i, name := range o.first {
		names[i] = shown(name)
	}
	text := strings.Join(names, ", ")
	if more := o.count - len(o.first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// unsupported returns which names a file cannot hold, and what to type.
func unsupported(src api.Source, reason error, found *offenders) string {
	return fmt.Sprintf("%s %q does not fit into %s (%s): %v: %s; select the keys with items, where a path gives a "+
		"key another name",
		src.Ref.Kind.Resource(), src.Ref.Name, shown(src.As.Path), src.As.Format, reason, found)
}
