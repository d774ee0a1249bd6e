package description

import (
	"fmt"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/uses"
)

// others are the rows of what else is used.
func others(d Description) [][]string {
	sources := map[string]string{}
	if d.Rollout != nil {
		for _, c := range d.Rollout.Copies {
			sources[c.Copy] = c.Of
		}
	}
	rows := [][]string{{"OBJECT", "OPTIONAL", "USED AS", "AN EDIT ARRIVES"}}
	for _, u := range d.Others {
		object, arrives := u.Object, arrival(u)
		if of := sources[u.Object]; of != "" {
			object, arrives = object+", a copy of "+of, "as a rollout"
		}
		rows = append(rows, []string{object, fmt.Sprint(u.Optional), place(u), arrives})
	}
	return rows
}

// place returns where a use is.
func place(u uses.Use) string {
	switch u.Way {
	case uses.AsVariable:
		return "variable " + u.Variable + " of " + u.Container
	case uses.AsVariables:
		if u.Prefix != "" {
			return "variables " + u.Prefix + "* of " + u.Container
		}
		return "variables of " + u.Container
	case uses.ToPull:
		return "imagePullSecrets"
	case uses.ToMount:
		return "credentials of " + u.Type + " volume " + u.Volume
	case uses.AsVolume:
	}
	mounts := make([]string, len(u.Mounts))
	for i, m := range u.Mounts {
		mounts[i] = mount(m)
	}
	text := u.Type + " volume " + u.Volume
	if len(mounts) > 0 {
		text += ": " + strings.Join(mounts, "; ")
	}
	return text
}

// arrival returns when pods notice an edit of what is not liveconfig's.
func arrival(u uses.Use) string {
	switch u.Way {
	case uses.AsVariable, uses.AsVariables:
		return "when the container restarts"
	case uses.ToPull:
		return "with the next pull of an image"
	case uses.ToMount:
		return "with the next mount"
	case uses.AsVolume:
	}
	subPaths := 0
	for _, m := range u.Mounts {
		if m.SubPath != "" {
			subPaths++
		}
	}
	const soon = "when the kubelet next looks, in about a minute"
	switch subPaths {
	case 0:
		return soon
	case len(u.Mounts):
		return "never: subPath"
	default:
		return soon + "; in subPath mounts never"
	}
}
