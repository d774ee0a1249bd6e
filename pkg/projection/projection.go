// Package projection turns a volume's Spec and the contents of its sources into the tree of files the volume shall hold.
//
// It is pure: it does not know clients, clocks, disks, goroutines or the state a volume is in.
package projection

import (
	"fmt"
	"io/fs"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/tree"
)

// fsGroup gives group members what a read-only volume can give: reading files, and listing and entering directories.
// New entries of a directory inherit its group.
const (
	groupReads     fs.FileMode = 0o440
	groupTraverses fs.FileMode = 0o110
	plainDir       fs.FileMode = 0o755
)

// Build merges the sources of spec, in order, into one tree. A ref that is not in contents does not exist. fsGroup is
// the pod's, nil when it has none. The tree shares the contents' bytes.
//
// Either everything required is there or nothing is built: the error is a *[MissingError] with all that is missing, or
// a *[tree.ConflictError] when what the objects hold cannot stand in one directory.
func Build(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (tree.Tree, error) {
	var missing MissingError
	merged := map[string]tree.File{}
	for _, src := range spec.Sources {
		content, found := contents[src.Ref]
		if !found && !src.Optional {
			missing.add(fmt.Sprintf("%s %q not found", src.Ref.Kind.Resource(), src.Ref.Name))
			continue
		}
		for _, f := range project(src, content, spec.DefaultMode, &missing) {
			merged[f.Path] = f
		}
	}
	if missing.any() {
		return tree.Tree{}, &missing
	}
	files := make([]tree.File, 0, len(merged))
	for _, f := range merged {
		files = append(files, f)
	}
	t, err := tree.New(files)
	if err != nil {
		return tree.Tree{}, err
	}
	own(&t, spec, fsGroup)
	return t, nil
}

// project returns the files of one source; required keys that do not exist are added to missing.
func project(src api.Source, content api.Content, defaultMode fs.FileMode, missing *MissingError) []tree.File {
	if len(src.Items) == 0 {
		files := make([]tree.File, 0, len(content.Data))
		for key, data := range content.Data {
			files = append(files, tree.File{Path: key, Data: data, Mode: defaultMode})
		}
		return files
	}
	files := make([]tree.File, 0, len(src.Items))
	for _, item := range src.Items {
		data, found := content.Data[item.Key]
		switch {
		case found:
			files = append(files, tree.File{Path: item.Path, Data: data, Mode: modeOf(item, defaultMode)})
		case !src.Optional:
			missing.add(missingKey(src.Ref.Kind, item.Key))
		}
	}
	return files
}

func modeOf(item api.Item, defaultMode fs.FileMode) fs.FileMode {
	if item.Mode != nil {
		return *item.Mode
	}
	return defaultMode
}

// own sets owners and what fsGroup adds to the modes. With an explicit uid the modes stay exact: the owner can read its
// files, and programs such as sshd refuse a key that its group can read.
func own(t *tree.Tree, spec api.Spec, fsGroup *int) {
	t.DirMode = plainDir
	if spec.UID != nil {
		t.UID = *spec.UID
	}
	switch {
	case spec.GID != nil:
		t.GID = *spec.GID
	case fsGroup != nil:
		t.GID = *fsGroup
	}
	if fsGroup == nil || spec.UID != nil {
		return
	}
	t.DirMode |= groupReads | groupTraverses | fs.ModeSetgid
	for i := range t.Files {
		t.Files[i].Mode |= groupReads
	}
}
