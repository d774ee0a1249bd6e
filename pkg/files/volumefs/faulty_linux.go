package volumefs

import "fmt"

// Faulty is an [FS] whose operations fail when a test wants it: the kernel does not fail on demand.
type Faulty struct {
	*FS

	// Fail is called before each operation. The operation fails, and does nothing, if Fail returns
	// an error. op is «create», «open», «publish», «share», «find», «mounted», «unmount» or
	// «usage». target is empty for create, and for the usage of a view.
	Fail func(op, target string) error
}

// Create is [FS.Create].
func (f *Faulty) Create(l Limits) (*View, error) {
	if err := f.Fail("create", ""); err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	v, err := f.FS.Create(l)
	return f.wrap(v), err
}

// Open is [FS.Open].
func (f *Faulty) Open(target string) (*View, error) {
	if err := f.Fail("open", target); err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	v, err := f.FS.Open(target)
	return f.wrap(v), err
}

// Mounted is [FS.Mounted].
func (f *Faulty) Mounted(target string) (bool, error) {
	if err := f.Fail("mounted", target); err != nil {
		return false, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return f.FS.Mounted(target)
}

// Unmount is [FS.Unmount].
func (f *Faulty) Unmount(target string) error {
	if err := f.Fail("unmount", target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	return f.FS.Unmount(target)
}

// Usage is [FS.Usage].
func (f *Faulty) Usage(target string) (Usage, error) {
	if err := f.Fail("usage", target); err != nil {
		return Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	return f.FS.Usage(target)
}

// IsAt is [FS.IsAt]. It asks as «open» does, in whose place it is.
func (f *Faulty) IsAt(target string, m Mount) bool {
	return f.Fail("open", target) == nil && f.FS.IsAt(target, m)
}

// Find is [FS.Find].
func (f *Faulty) Find(target string) (Mount, error) {
	if err := f.Fail("find", target); err != nil {
		return Mount{}, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return f.FS.Find(target)
}

// wrap makes the operations of a view fail too.
func (f *Faulty) wrap(v *View) *View {
	if v != nil {
		v.fault = f.Fail
	}
	return v
}
