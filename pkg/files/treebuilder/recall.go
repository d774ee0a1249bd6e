package treebuilder

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// The [tree.File.Source] of a file that no selected object has, and of one for which the text would
// be too long.
const (
	sourceOfNamed   = "named"
	sourceIsTooLong = "long"
)

// needsSources reports whether the files of a volume have a [tree.File.Source]: if it selects
// objects, and those in one namespace may be denied while others are not.
func needsSources(spec api.Spec) bool {
	ranges := 0
	for _, src := range spec.Sources {
		ranges += len(src.Ranges())
	}
	return ranges > 1 || ranges == 1 && len(spec.Sources) > 1
}

// IsRecalled reports whether [Recall] needs the bytes of files with a [tree.File.Source].
func IsRecalled(source string) bool { return source != sourceOfNamed }

// sourceText returns the [tree.File.Source] of the file of a selected object: what [Recall] needs
// to make the object again.
func (f selectedFile) sourceText(folderAnnotation string) string {
	ref := f.object.Content.Ref
	text := strings.Join([]string{
		strconv.Itoa(f.source), strconv.FormatInt(f.object.Created.Unix(), 10), ref.Namespace, ref.Name, f.key,
		f.object.Annotations[folderAnnotation],
	}, "/")
	if len(text) > tree.MaxSource {
		return sourceIsTooLong
	}
	return text
}

// Recall makes selected objects again from the files of a volume, for sources that cannot be read:
// the objects in the namespaces that are wanted, with the keys that have files. It fails if it is
// not known of each file whose it is.
func Recall(
	spec api.Spec, files []tree.File, isWanted func(source int, namespace string) bool,
) (Selected, error) {
	type place struct {
		source int
		ref    api.Ref
	}
	found := map[place]*Object{}
	for _, file := range files {
		if !IsRecalled(file.Source) {
			continue
		}
		f, ok := recalled(spec, file)
		if !ok {
			return nil, fmt.Errorf("file %s: it is not known where it comes from", shown(file.Path))
		}
		at := place{f.source, f.object.Content.Ref}
		switch {
		case !isWanted(at.source, at.ref.Namespace):
			continue
		case found[at] == nil:
			found[at] = f.object
		}
		found[at].Content.Data[f.key] = file.Data
	}
	objects := Selected{}
	for at, object := range found {
		objects[at.source] = append(objects[at.source], []Object{*object})
	}
	return objects, nil
}

// recalled returns what asked for a file, with an object that has no data. It reports false if the
// spec would not have the file at its path.
func recalled(spec api.Spec, file tree.File) (f selectedFile, ok bool) {
	const fields = 6
	parts := strings.SplitN(file.Source, "/", fields)
	if len(parts) != fields {
		return f, false
	}
	source, err := strconv.Atoi(parts[0])
	if err != nil || source < 0 || source >= len(spec.Sources) || spec.Sources[source].Selection == nil {
		return f, false
	}
	created, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return f, false
	}
	src, key, folder := spec.Sources[source], parts[4], parts[5]
	ref := src.Ref.In(parts[2]).Named(parts[3])
	path, problem := src.Selection.PathOf(ref, key, folder)
	return selectedFile{source: source, key: key, path: path, object: &Object{
		Content:     api.Content{Ref: ref, Data: map[string][]byte{}},
		Created:     time.Unix(created, 0),
		Annotations: map[string]string{src.Selection.FolderAnnotation: folder},
	}}, problem == "" && path == file.Path
}
