package convert

import (
	"fmt"
	"slices"
	"strings"
)

// remark is a text about volumes of one pod spec.
type remark struct {
	// place is the first of the volumes: the file, the line and the object.
	place, text string
	volumes     []string
}

// String returns the line for people.
func (r remark) String() string {
	what := "volume"
	if len(r.volumes) > 1 {
		what = "volumes"
	}
	return fmt.Sprintf("%s: %s %s: %s", r.place, what, strings.Join(r.volumes, ", "), r.text)
}

// remarks are those about a pod spec. A text about several volumes is there once.
type remarks []remark

func (all *remarks) add(place, volume, text string) {
	same := slices.IndexFunc(*all, func(r remark) bool { return r.text == text })
	if same < 0 {
		*all = append(*all, remark{place: place, text: text, volumes: []string{volume}})
		return
	}
	if known := &(*all)[same]; !slices.Contains(known.volumes, volume) {
		known.volumes = append(known.volumes, volume)
	}
}

func (o *command) print(all remarks) {
	for _, r := range all {
		o.Remark("%s", r)
	}
}
