package treebuilder

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// sourceOfNamed is the [tree.File.Source] of a file that no selected object has.
const sourceOfNamed = "named"

// The [tree.File.Source] of a selected object has these fields, with slashes between them. The last
// one may have slashes too. If the text would be too long, it ends after the namespace.
const (
	fieldSource = iota
	fieldCreated
	fieldNamespace
	fieldName
	fieldKey
	fieldFolder
	fields
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

// sourceText returns the [tree.File.Source] of the file of a selected object: what [Recall] needs
// to make the object again.
func (f selectedFile) sourceText(folderAnnotation string) string {
	ref := f.object.Content.Ref
	texts := [fields]string{
		strconv.Itoa(f.source), strconv.FormatInt(f.object.Created.Unix(), 10), ref.Namespace, ref.Name, f.key,
		f.object.Annotations[folderAnnotation],
	}
	text := strings.Join(texts[:], "/")
	if len(text) > tree.MaxSource {
		text = strings.Join(texts[:fieldName], "/")
	}
	return text
}

// Wanted reports whether the objects that a source of the spec has selected in a namespace are to
// be recalled.
type Wanted func(source int, namespace string) bool

// IsRecalled reports whether [Recall] needs the bytes of a file with a [tree.File.Source].
func IsRecalled(spec api.Spec, text string, isWanted Wanted) bool {
	if text == sourceOfNamed {
		return false
	}
	texts, source, ok := splitSource(spec, text)
	return !ok || isWanted(source, texts[fieldNamespace])
}

// splitSource returns the fields of a text, at least up to the namespace, and the first one as a
// number.
func splitSource(spec api.Spec, text string) (texts []string, source int, ok bool) {
	texts = strings.SplitN(text, "/", fields)
	source, err := strconv.Atoi(texts[fieldSource])
	ok = err == nil && source >= 0 && source < len(spec.Sources) && spec.Sources[source].Selection != nil
	return texts, source, ok && (len(texts) == fieldName || len(texts) == fields)
}

// Recall makes selected objects again from the files of a volume, for sources that cannot be read:
// those that are wanted, with the keys that have files. It fails if it is not known of each file
// whose it is, as far as it may be of one of them.
func Recall(spec api.Spec, files []tree.File, isWanted Wanted) (Selected, error) {
	type place struct {
		source          int
		ref             api.Ref
		created, folder string // A writer that was killed can leave files of several versions.
	}
	found := map[place]*Object{}
	for _, file := range files {
		if !IsRecalled(spec, file.Source, isWanted) {
			continue
		}
		f, texts, ok := recalled(spec, file)
		if !ok {
			return nil, fmt.Errorf("file %s: it is not known where it comes from", shown(file.Path))
		}
		at := place{f.source, f.object.Content.Ref, texts[fieldCreated], texts[fieldFolder]}
		if found[at] == nil {
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

// recalled returns what asked for a file, with an object that has no data, and the fields of its
// source. It reports false if the spec would not have the file at its path.
func recalled(spec api.Spec, file tree.File) (f selectedFile, texts []string, ok bool) {
	texts, source, ok := splitSource(spec, file.Source)
	if !ok || len(texts) != fields {
		return f, nil, false
	}
	created, err := strconv.ParseInt(texts[fieldCreated], 10, 64)
	if err != nil {
		return f, nil, false
	}
	src, key, folder := spec.Sources[source], texts[fieldKey], texts[fieldFolder]
	ref := src.Ref.In(texts[fieldNamespace]).Named(texts[fieldName])
	path, problem := src.Selection.PathOf(ref, key, folder)
	return selectedFile{source: source, key: key, path: path, object: &Object{
		Content:     api.Content{Ref: ref, Data: map[string][]byte{}},
		Created:     time.Unix(created, 0),
		Annotations: map[string]string{src.Selection.FolderAnnotation: folder},
	}}, texts, problem == "" && path == file.Path
}
