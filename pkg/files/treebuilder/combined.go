package treebuilder

import (
	"fmt"
	"iter"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// MaxRendered is how many bytes the combined files of a volume may have together. The files of
// single keys share the bytes of the cached objects; combined files take additional memory, up to
// six times the size of an object.
const MaxRendered = 4 << 20

// bytesPerName is how much memory sorting takes for each name of a combined file.
const bytesPerName = 32

// renderedFile is a file whose bytes are made last.
type renderedFile struct {
	bytes  int // The size when rendered, at most.
	memory int // Of rendering, with the bytes.
	render func() []byte
}

// combinedFile holds several keys of one source.
type combinedFile struct {
	format api.Format
	values map[string][]byte // By the names in the file.
	bytes  int               // The size when rendered, at most.
}

// Rendered returns how many bytes of memory [Plan.Tree] takes.
func (p Plan) Rendered() int64 {
	total := int64(0)
	for _, r := range p.rendered {
		total += int64(r.memory)
	}
	return total
}

// Sizes returns the size of each file of the tree in bytes. The size of a rendered file is an upper
// bound.
func (p Plan) Sizes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, f := range p.tree.Files {
			size := len(f.Data)
			if r, found := p.rendered[f.Path]; found {
				size = r.bytes
			}
			if !yield(size) {
				return
			}
		}
	}
}

// SourceSizes returns the size of the [tree.File.Source] of each file that has one, in bytes.
func (p Plan) SourceSizes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, f := range p.tree.Files {
			if f.Source != "" && !yield(len(f.Source)) {
				return
			}
		}
	}
}

// Dirs returns every directory of the tree, as [tree.Tree.Dirs] does.
func (p Plan) Dirs() []string { return p.tree.Dirs() }

// MountPoints returns those of the tree.
func (p Plan) MountPoints() []string { return p.tree.MountPoints }

// Tree renders the combined files, and those with values, and returns the tree. Call it once.
func (p Plan) Tree() tree.Tree {
	for i, f := range p.tree.Files {
		if r, found := p.rendered[f.Path]; found {
			p.tree.Files[i].Data = r.render()
		}
	}
	return p.tree
}

// addCombined adds the one file of a source with as.
func (d *draft) addCombined(src api.Source, content api.Content) {
	s := combinedFile{format: src.As.Format, values: content.Data}
	if len(src.Items) > 0 {
		s.values = make(map[string][]byte, len(src.Items))
	}
	for i, item := range src.Items {
		if data, found := d.find(src, i, content); found {
			s.values[item.Path] = data
		}
	}
	if !d.measure(&s, src) {
		return
	}
	if !d.isFree(src, "", src.As.Path) {
		return
	}
	d.addFile(tree.File{Path: src.As.Path}, src.As.Mode)
	d.render(src.As.Path, renderedFile{
		bytes: s.bytes, memory: s.bytes + len(s.values)*bytesPerName,
		render: func() []byte { return rendering.Render(s.format, s.values) },
	})
}

// measure computes the size of a combined file, and reports whether it can be rendered. If not, it
// adds a problem. It stops reading values when the volume is too large, so that a refusal is cheap
// as well.
func (d *draft) measure(s *combinedFile, src api.Source) bool {
	if d.isFull || d.exceeds(leastSize(s.values)) {
		return false
	}
	wrong := map[error]*offenders{}
	s.bytes = rendering.FrameSize
	for name, value := range s.values {
		size, err := rendering.Size(s.format, name, value)
		if err != nil {
			wrong[err] = wrong[err].with(name)
			size = len(name) + len(value) // It was read all the same.
		}
		s.bytes += size
	}
	for _, reason := range []error{rendering.ErrName, rendering.ErrNUL, rendering.ErrText} {
		if found := wrong[reason]; found != nil {
			d.unsupported.add(unsupported(src, reason, found))
		}
	}
	if d.exceeds(s.bytes) {
		return false
	}
	d.combined += s.bytes
	return len(wrong) == 0
}

// leastSize returns a lower bound of the size of a file. It reads no value.
func leastSize(values map[string][]byte) int {
	least := rendering.FrameSize
	for name, value := range values {
		least += len(name) + len(value) + rendering.LeastBetween
	}
	return least
}

// exceeds reports whether more bytes are too many. Then it adds a problem, once.
func (d *draft) exceeds(more int) bool {
	if d.combined+more <= MaxRendered {
		return false
	}
	d.isFull = true
	d.unsupported.add(fmt.Sprintf("the files that as makes would have more than %d MiB together, which is the most "+
		"for a volume; select fewer keys with items", MaxRendered>>20))
	return true
}
