package projection

import (
	"fmt"
	"io/fs"
	"iter"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// MostRendered is how many bytes the files of a volume that hold several keys may have together. An item is short, and may
// name an object of a megabyte, of which some formats make six: unlike the files of keys, these are no bytes that are there
// already.
const MostRendered = 4 << 20

// bytesPerName is what it takes to put the names of a file in order, for each.
const bytesPerName = 32

// sheet is a file that holds several keys.
type sheet struct {
	format api.Format
	values map[string][]byte // By the names in the file.
	bytes  int               // At most, rendered.
}

// Rendered returns how much memory [Plan.Tree] takes for what it renders.
func (p Plan) Rendered() int64 {
	total := int64(0)
	for _, s := range p.sheets {
		total += int64(s.bytes + len(s.values)*bytesPerName)
	}
	return total
}

// Sizes returns how many bytes each file of the tree has; one that is still to be rendered, at most.
func (p Plan) Sizes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, f := range p.tree.Files {
			size := len(f.Data)
			if s, found := p.sheets[f.Path]; found {
				size = s.bytes
			}
			if !yield(size) {
				return
			}
		}
	}
}

// Dirs returns every directory of the tree, as [tree.Tree.Dirs].
func (p Plan) Dirs() []string { return p.tree.Dirs() }

// Tree renders the files that hold several keys and returns the tree. It is called once.
func (p Plan) Tree() tree.Tree {
	for i, f := range p.tree.Files {
		if s, found := p.sheets[f.Path]; found {
			p.tree.Files[i].Data = rendering.Render(s.format, s.values)
		}
	}
	return p.tree
}

// gather places the one file of a source.
func (d *draft) gather(src api.Source, content api.Content, defaultMode fs.FileMode) {
	s := sheet{format: src.As.Format, values: content.Data}
	if len(src.Items) > 0 {
		s.values = make(map[string][]byte, len(src.Items))
	}
	for _, item := range src.Items {
		if data, found := d.find(src, item.Key, content); found {
			s.values[item.Path] = data
		}
	}
	if !d.measure(&s, src) {
		return
	}
	d.place(src.As.Path, nil, modeOf(src.As.Mode, defaultMode))
	if d.sheets == nil {
		d.sheets = map[string]sheet{}
	}
	d.sheets[src.As.Path] = s
}

// measure finds out how large a sheet will be, and reports whether it can be rendered. What cannot is said in unfit. A value
// is looked at only while there is room for it: what it takes to find out that a volume is too large is limited as well.
func (d *draft) measure(s *sheet, src api.Source) bool {
	if d.isFull || d.fills(leastSize(s.values, MostRendered-d.rendered)) {
		return false
	}
	wrong := map[error]*offenders{}
	s.bytes = rendering.FrameSize
	for name, value := range s.values {
		size, err := rendering.Size(s.format, name, value)
		if err != nil {
			wrong[err] = wrong[err].with(name)
			size = len(name) + len(value) // Which was looked at all the same.
		}
		s.bytes += size
	}
	for _, reason := range []error{rendering.ErrName, rendering.ErrNUL, rendering.ErrText} {
		if found := wrong[reason]; found != nil {
			d.unfit.add(unfit(src, reason, found))
		}
	}
	if d.fills(s.bytes) {
		return false
	}
	d.rendered += s.bytes
	return len(wrong) == 0
}

// leastSize returns how many bytes a file has at least, or some number above the most that is of interest.
func leastSize(values map[string][]byte, most int) int {
	least := rendering.FrameSize
	for name, value := range values {
		if least > most {
			break
		}
		least += len(name) + len(value) + rendering.LeastBetween
	}
	return least
}

// fills reports whether so many bytes more are too many. Then nothing more is looked at.
func (d *draft) fills(more int) bool {
	if d.rendered+more <= MostRendered {
		return false
	}
	d.isFull = true
	d.unfit.add(fmt.Sprintf("the files that as makes would have more than %d MiB together, which is the most for a volume; "+
		"select fewer keys with items", MostRendered>>20))
	return true
}
