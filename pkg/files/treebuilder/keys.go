package treebuilder

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// MostKeys is how many keys the objects of a volume may have together. An object counts as often as
// a source, a value or a selection has all of its keys. One object of a hundred thousand keys is
// named by a few bytes of text, and two thousand times of them take minutes.
const MostKeys = 1 << 18

// checkKeys returns an [*UnsupportedError] if there are too many keys to look at. It looks at none.
func checkKeys(spec api.Spec, contents map[api.Ref]api.Content, selected Selected) error {
	sources := spec.Sources
	if spec.HasExpand() { // Else nothing reads the values.
		sources = spec.Inputs()
	}
	keys := 0
	for _, src := range sources {
		if src.Selection == nil && len(src.Items) == 0 {
			keys += len(contents[src.Ref].Data)
		}
	}
	for _, lists := range selected {
		for _, objects := range lists {
			for _, o := range objects {
				keys += len(o.Content.Data)
			}
		}
	}
	if keys <= MostKeys {
		return nil
	}
	e := &UnsupportedError{}
	e.add(fmt.Sprintf("the sources and values of the volume have %d keys together, the most is %d: list the keys that it "+
		"needs in items, or use more volumes", keys, MostKeys))
	return e
}
