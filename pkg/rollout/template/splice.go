package template

import (
	"cmp"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// edit replaces the bytes of a text from start to end.
type edit struct {
	start, end int
	to         string
}

// splice returns the text with the names that are wanted, and reports whether it could put them
// there.
func splice(text string, written []writtenName, want []api.Source) (string, bool) {
	var edits []edit
	for i, at := range written {
		to := want[i].Ref.Name
		if to == at.name {
			continue
		}
		if at.start < 0 {
			return "", false
		}
		edits = append(edits, at.edit(text, to))
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	return apply(text, edits)
}

// asText stands before a plain name that YAML would take for a number, such as 1e-0123456789. It is
// a tag, and not quotes, so that the way back can distinguish it from what people write.
const asText = "!!str "

// edit returns the edit that puts another name where the name is written.
func (at writtenName) edit(text, to string) edit {
	e := edit{start: at.start, end: at.start + len(at.name), to: to}
	if !at.plain {
		return e
	}
	tagged := strings.HasSuffix(text[:at.start], asText)
	switch readable := isText(to); {
	case !readable && !tagged:
		e.to = asText + to
	case readable && tagged && !isText(at.name):
		e.start -= len(asText)
	}
	return e
}

// isText reports whether a valid name without quotes around it is a text to YAML.
func isText(name string) bool {
	_, err := api.Parse(map[string]string{api.KeySources: "[{configMap: {name: " + name + "}}]"}, "default")
	return err == nil
}

// apply makes the edits, which are in order, and reports whether they leave each other alone.
func apply(text string, edits []edit) (string, bool) {
	var b strings.Builder
	done := 0
	for _, e := range edits {
		if e.start < done {
			return "", false
		}
		b.WriteString(text[done:e.start])
		b.WriteString(e.to)
		done = e.end
	}
	b.WriteString(text[done:])
	return b.String(), true
}
