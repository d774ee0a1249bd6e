package volumefs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Fake stands in for an FS in tests that need no kernel mounts: its volumes are plain directories. Publishing renames
// one to the target, so everything but what a mount alone can do is the same. Nothing keeps a volume from being written
// through its target, or from outgrowing its limits.
//
// What is published is kept on disk as well: a Fake made over the same directory finds it, as a restarted driver does.
type Fake struct {
	// Fail, unless nil, is asked before each operation and makes it fail with the error it returns, having done
	// nothing. op is «create», «open», «publish», «mounted», «unmount» or «usage»; target is empty for create.
	Fail func(op, target string) error

	dir, root string
}

// NewFake returns a Fake that keeps its volumes and records below dir, which must exist and be on the same file system
// as the targets. Those are below root, as in [Config].
func NewFake(dir, root string) *Fake {
	return &Fake{dir: dir, root: filepath.Clean(root)}
}

// Create is [FS.Create].
func (f *Fake) Create(l Limits) (*View, error) {
	if err := errors.Join(l.check(), f.fail("create", "")); err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	dir, err := os.MkdirTemp(f.dir, "volume-")
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	root, err := openFakeRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", errors.Join(err, os.Remove(dir)))
	}
	at := dir
	return &View{
		Root: root,
		publish: func(target string) error {
			err := f.publish(dir, target, l)
			if err == nil {
				at = target
			}
			return err
		},
		usage:   func() (Usage, error) { return f.usage(at, l) },
		isAt:    func(target string) bool { return f.isAt(root, target) },
		release: func() error { return os.RemoveAll(dir) },
	}, nil
}

func openFakeRoot(dir string) (*os.Root, error) {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // As the real one: any container user may look.
		return nil, err
	}
	return os.OpenRoot(dir)
}

// publish writes the record first: what it names without a target counts as not mounted.
func (f *Fake) publish(dir, target string, l Limits) error {
	if err := f.fail("publish", target); err != nil {
		return err
	}
	if _, err := f.limits(target); err == nil {
		return ErrMounted
	}
	if err := f.checkTarget(target); err != nil {
		return err
	}
	record, err := json.Marshal(l)
	if err != nil {
		return err
	}
	//nolint:forbidigo // A fake does not survive the process that would be torn from writing.
	if err := os.WriteFile(f.record(target), record, 0o600); err != nil {
		return err
	}
	// Unlike os.Rename the system call takes an empty directory's place.
	if err := os.NewSyscallError("rename", syscall.Rename(dir, target)); err != nil {
		return errors.Join(err, os.Remove(f.record(target)))
	}
	return nil
}

// checkTarget accepts a directory and nothing.
func (f *Fake) checkTarget(target string) error {
	info, err := f.look(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil // Publishing says what is wrong with the parent; unmounting does not care.
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("the target is not a directory")
	}
	return nil
}

// look returns what is at a clean target, looking for links at each step from the root. Unlike the real one it would not
// see one that comes after it has passed.
func (f *Fake) look(target string) (fs.FileInfo, error) {
	rest, err := below(f.root, target)
	if err != nil {
		return nil, err
	}
	path := f.root
	for name := range strings.SplitSeq(filepath.Dir(rest), "/") {
		path = filepath.Join(path, name)
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if path != f.root && info.Mode().Type() == fs.ModeSymlink {
			return nil, &SymlinkError{Path: path, Target: target}
		}
	}
	info, err := os.Lstat(target)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		return nil, &SymlinkError{Path: target, Target: target}
	}
	return info, err
}

// isAt asks Fail as «open» does, in whose place it is.
func (f *Fake) isAt(root *os.Root, target string) bool {
	_, err := f.limits(target)
	if errors.Join(err, f.fail("open", target)) != nil {
		return false
	}
	own, err1 := root.Stat(".")
	there, err2 := os.Stat(target)
	return errors.Join(err1, err2) == nil && os.SameFile(own, there)
}

// Open is [FS.Open].
func (f *Fake) Open(target string) (*View, error) {
	l, err := f.limits(target)
	if err := errors.Join(err, f.fail("open", target)); err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	return &View{
		Root: root, release: func() error { return nil },
		usage: func() (Usage, error) { return f.usage(target, l) },
		isAt:  func(target string) bool { return f.isAt(root, target) },
	}, nil
}

// Mounted is [FS.Mounted]. There is nothing foreign for a Fake to find.
func (f *Fake) Mounted(target string) (bool, error) {
	_, err := f.limits(target)
	err = cmp.Or(f.fail("mounted", target), err)
	if errors.Is(err, ErrNotMounted) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return true, nil
}

// Unmount is [FS.Unmount].
func (f *Fake) Unmount(target string) error {
	target, err := cleanTarget(target)
	if err := errors.Join(err, f.fail("unmount", target)); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	if _, err := f.limits(target); err == nil {
		return errors.Join(os.RemoveAll(target), os.Remove(f.record(target)))
	}
	if err := f.checkTarget(target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	return nil
}

// Usage is [FS.Usage], with every file counted to the byte and not in pages.
func (f *Fake) Usage(target string) (Usage, error) {
	l, err := f.limits(target)
	if err != nil {
		return Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	u, err := f.usage(target, l)
	if err != nil {
		return Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	return u, nil
}

func (f *Fake) usage(dir string, l Limits) (Usage, error) {
	if err := f.fail("usage", dir); err != nil {
		return Usage{}, err
	}
	u := Usage{BytesTotal: l.Bytes, InodesTotal: l.Inodes}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		u.InodesUsed++
		if info.Mode().IsRegular() {
			u.BytesUsed += info.Size()
		}
		return nil
	})
	if err != nil {
		return Usage{}, err
	}
	u.BytesFree, u.InodesFree = max(0, u.BytesTotal-u.BytesUsed), max(0, u.InodesTotal-u.InodesUsed)
	return u, nil
}

// Check is [FS.Check]; a Fake needs nothing from the kernel.
func (f *Fake) Check() error {
	if !filepath.IsAbs(f.root) {
		return fmt.Errorf("check where volumes go: %w", errNotAbsolute(f.root))
	}
	info, err := os.Stat(f.root)
	switch {
	case err != nil:
		return fmt.Errorf("check where volumes go: %w", err)
	case !info.IsDir():
		return fmt.Errorf("check where volumes go: %s: %w", f.root, syscall.ENOTDIR)
	}
	return nil
}

func (f *Fake) fail(op, target string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(op, target)
}

// limits returns the limits of the volume published at target, or [ErrNotMounted].
func (f *Fake) limits(target string) (Limits, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return Limits{}, err
	}
	_, err = f.look(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return Limits{}, ErrNotMounted
	case err != nil:
		return Limits{}, err
	}
	record, err := os.ReadFile(f.record(target))
	if errors.Is(err, fs.ErrNotExist) {
		return Limits{}, ErrNotMounted
	}
	if err != nil {
		return Limits{}, err
	}
	var l Limits
	if err := json.Unmarshal(record, &l); err != nil {
		return Limits{}, fmt.Errorf("read the record of %s: %w", target, err)
	}
	return l, nil
}

func (f *Fake) record(target string) string {
	sum := sha256.Sum256([]byte(target))
	return filepath.Join(f.dir, "published-"+hex.EncodeToString(sum[:]))
}
