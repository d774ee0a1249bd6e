package projection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// UnfitError is returned by [Build] when a file of several keys cannot hold one of them, or all such files of a volume would
// be too large. It names keys and holds nothing of their values.
type UnfitError struct{ problems }

// mostOffenders is how many keys a problem names.
const mostOffenders = 5

// offenders are names that cannot be in a file for one reason: the first in their order, whatever the order in which they were
// found, and how many there are. An object may have a hundred thousand.
type offenders struct {
	first []string
	count int
}

// with returns the offenders with one more. Nil is none.
func (o *offenders) with(name string) *offenders {
	if o == nil {
		o = &offenders{}
	}
	o.count++
	at, _ := slices.BinarySearch(o.first, name)
	if at < mostOffenders {
		o.first = slices.Insert(o.first, at, name)
		o.first = o.first[:min(len(o.first), mostOffenders)]
	}
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

// unfit says which names a file cannot hold, and what to do about it.
func unfit(src api.Source, reason error, found *offenders) string {
	return fmt.Sprintf("%s %q does not fit into %s (%s): %v: %s; select the keys with items, where a path gives a key another name",
		src.Ref.Kind.Resource(), src.Ref.Name, shown(src.As.Path), src.As.Format, reason, found)
}
