package volume_test

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// faultyMounts are real mounts, whose operations fail when a test wants it: the kernel does not fail on demand.
type faultyMounts struct {
	*volumefs.FS

	// Fail is called before each operation. The operation fails, and does nothing, if Fail returns an error. op is «create», «open»,
	// «publish», «share», «find», «mounted», «unmount» or «usage». target is empty for create, and for the usage of a view.
	Fail func(op, target string) error
}

func (f *faultyMounts) Create(l volumefs.Limits) (volume.View, error) {
	if err := f.Fail("create", ""); err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	return f.wrap(volume.OnTmpfs(f.FS).Create(l))
}

func (f *faultyMounts) Open(target string) (volume.View, error) {
	if err := f.Fail("open", target); err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	return f.wrap(volume.OnTmpfs(f.FS).Open(target))
}

func (f *faultyMounts) Mounted(target string) (bool, error) {
	if err := f.Fail("mounted", target); err != nil {
		return false, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return f.FS.Mounted(target)
}

func (f *faultyMounts) Unmount(target string) error {
	if err := f.Fail("unmount", target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	return f.FS.Unmount(target)
}

func (f *faultyMounts) Usage(target string) (volumefs.Usage, error) {
	if err := f.Fail("usage", target); err != nil {
		return volumefs.Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	return f.FS.Usage(target)
}

// IsAt asks as «open» does, in whose place it is.
func (f *faultyMounts) IsAt(target string, m volumefs.Mount) bool {
	return f.Fail("open", target) == nil && f.FS.IsAt(target, m)
}

func (f *faultyMounts) Find(target string) (volumefs.Mount, error) {
	if err := f.Fail("find", target); err != nil {
		return volumefs.Mount{}, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return f.FS.Find(target)
}

func (f *faultyMounts) wrap(v volume.View, err error) (volume.View, error) {
	if err != nil {
		return nil, err
	}
	return &faultyView{View: v, fail: f.Fail}, nil
}

// faultyView is a view of [faultyMounts].
type faultyView struct {
	volume.View

	fail func(op, target string) error
}

func (v *faultyView) Publish(target string) error {
	if err := v.fail("publish", target); err != nil {
		return fmt.Errorf("publish volume at %s: %w", target, err)
	}
	return v.View.Publish(target)
}

func (v *faultyView) Share(from, to string) (volumefs.Mount, error) {
	if err := v.fail("share", to); err != nil {
		return volumefs.Mount{}, fmt.Errorf("share volume at %s with %s: %w", from, to, err)
	}
	return v.View.Share(from, to)
}

func (v *faultyView) Usage() (volumefs.Usage, error) {
	if err := v.fail("usage", ""); err != nil {
		return volumefs.Usage{}, fmt.Errorf("get usage of a volume: %w", err)
	}
	return v.View.Usage()
}
