package preview

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Difference returns what readers of a pod's volumes would see change from one to the other, and ""
// for nothing. Volumes with an Err hold nothing.
func Difference(pod Pod, before, after []Volume) string {
	var b strings.Builder
	for _, next := range after {
		b.WriteString(change{path(pod, next.Name), named(before, next.Name), next}.text())
	}
	for _, last := range before {
		if named(after, last.Name).Name == "" {
			b.WriteString(change{path(pod, last.Name), last, Volume{}}.text())
		}
	}
	return b.String()
}

// named returns the volume of a name, and one without a name for none.
func named(volumes []Volume, name string) Volume {
	at := slices.IndexFunc(volumes, func(v Volume) bool { return v.Name == name })
	if at < 0 {
		return Volume{}
	}
	return volumes[at]
}

func path(pod Pod, volume string) string { return pod.Object() + "/" + volume }

// change is one volume before and after. A Volume without a name does not exist.
type change struct {
	path          string
	before, after Volume
}

func (c change) text() string {
	var b strings.Builder
	b.WriteString(c.volume())
	old, next := byPath(c.before.Tree), byPath(c.after.Tree)
	either := maps.Clone(old)
	maps.Copy(either, next)
	for _, name := range slices.Sorted(maps.Keys(either)) {
		b.WriteString(c.file(name, old, next))
	}
	return b.String()
}

func byPath(t tree.Tree) map[string]tree.File {
	files := make(map[string]tree.File, len(t.Files))
	for _, f := range t.Files {
		files[f.Path] = f
	}
	return files
}

func (c change) volume() string {
	switch {
	case c.before.Name == "":
		return fmt.Sprintf("volume %s: added\n", c.path)
	case c.after.Name == "":
		return fmt.Sprintf("volume %s: removed\n", c.path)
	case c.before.Err != nil, c.after.Err != nil:
		return ""
	}
	var what []string
	note := func(of, before, after string) {
		if before != after {
			what = append(what, fmt.Sprintf("%s %s -> %s", of, before, after))
		}
	}
	note("owner", owner(c.before.Tree), owner(c.after.Tree))
	note("mode", octal(c.before.RootMode), octal(c.after.RootMode))
	note("mode of directories", octal(c.before.Tree.DirMode), octal(c.after.Tree.DirMode))
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("volume %s: %s\n", c.path, strings.Join(what, ", "))
}

func owner(t tree.Tree) string { return fmt.Sprintf("%d:%d", t.UID, t.GID) }

func ownerOf(f tree.File, t tree.Tree) string { return fmt.Sprintf("%d:%d", t.UserOf(f), t.GID) }

// octal writes a mode as chmod takes it.
func octal(mode fs.FileMode) string {
	const setgid, sticky = 0o2000, 0o1000
	bits := uint32(mode.Perm())
	if mode&fs.ModeSetgid != 0 {
		bits |= setgid
	}
	if mode&fs.ModeSticky != 0 {
		bits |= sticky
	}
	return fmt.Sprintf("%04o", bits)
}

func (c change) file(name string, before, after map[string]tree.File) string {
	old, was := before[name]
	next, is := after[name]
	full := c.path + "/" + shown(name)
	var text string
	if was && is && old.Mode != next.Mode {
		text = fmt.Sprintf("file %s: mode %s -> %s\n", full, octal(old.Mode), octal(next.Mode))
	}
	if was && is && (old.User != nil || next.User != nil) { // Else the line of the volume has its owner.
		if before, after := ownerOf(old, c.before.Tree), ownerOf(next, c.after.Tree); before != after {
			text += fmt.Sprintf("file %s: owner %s -> %s\n", full, before, after)
		}
	}
	differ := printing.Unified
	if c.before.Hidden[name] || c.after.Hidden[name] {
		differ = printing.Masked
	}
	return text + differ("live/"+full, "preview/"+full, contentOf(before, name), contentOf(after, name))
}

// contentOf returns the content of a file; nil only if the file does not exist.
func contentOf(files map[string]tree.File, name string) []byte {
	f, exists := files[name]
	if !exists {
		return nil
	}
	return append([]byte{}, f.Data...)
}
