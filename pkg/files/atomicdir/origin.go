package atomicdir

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// origin is a directory of the live generation, from which a new one takes the files that do not
// change. Nil is one without files.
type origin struct {
	fd

	keeps func(path string) bool
}

// liveFiles returns the live generation if files are taken from it: if it is the one that the last
// Write left.
func (w *atomicWrite) liveFiles() *origin {
	if w.keeps == nil || !w.isAsLeft || w.live == "" {
		return nil
	}
	root := &origin{fd: w.fd, keeps: w.keeps}
	return root.below(w.live)
}

// below opens a directory of the origin; nil if it cannot be opened.
func (o *origin) below(name string) *origin {
	if o == nil {
		return nil
	}
	opened, err := o.openDir(name)
	if err != nil {
		return nil // Its files are written.
	}
	return &origin{fd: opened, keeps: o.keeps}
}

func (o *origin) close() error {
	if o == nil {
		return nil
	}
	return o.fd.close()
}

// linkOrCreate makes the file name. It is a link to the origin's file if that is the same.
func (d dir) linkOrCreate(name string, f tree.File, t tree.Tree, from *origin) error {
	if from == nil || !from.keeps(path.Join(d.at, name)) {
		return d.create(name, f, t)
	}
	err := d.do("link", name, func() error { return unix.Linkat(int(from.fd), name, int(d.fd), name, 0) })
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) {
		// A container that can mount has changed what is there.
		return d.create(name, f, t)
	}
	return err
}
