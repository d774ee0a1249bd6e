package volumefs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// TestFakeFailsOnDemand has every operation fail once, and nothing may have been done then.
func TestFakeFailsOnDemand(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	ops := []string{"create", "publish", "mounted", "usage", "open", "unmount"}
	var asked []string
	root := t.TempDir()
	f := volumefs.NewFake(t.TempDir(), root)
	failing := ""
	f.Fail = func(op, _ string) error {
		asked = append(asked, op)
		if op == failing {
			return boom
		}
		return nil
	}
	target := root + "/mount"
	for _, failing = range ops {
		err := oneLife(f, target)
		if !errors.Is(err, boom) {
			t.Errorf("with a failing %s: %v, want %v", failing, err, boom)
		}
		failing = ""
		if err := f.Unmount(target); err != nil {
			t.Fatal(err)
		}
		checkGone(t, target)
	}
	if err := oneLife(f, target); err != nil {
		t.Errorf("with nothing that fails: %v", err)
	}
	slices.Sort(asked)
	slices.Sort(ops)
	if got := slices.Compact(asked); !slices.Equal(got, ops) {
		t.Errorf("asked about %q, want %q", got, ops)
	}
}

// oneLife makes every call once, and stops at the first error.
func oneLife(f *volumefs.Fake, target string) error {
	v, err := f.Create(limits())
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Publish(target); err != nil {
		return err
	}
	if mounted, err := f.Mounted(target); !mounted || err != nil {
		return errors.Join(errors.New("not mounted"), err)
	}
	if _, err := f.Usage(target); err != nil {
		return err
	}
	open, err := f.Open(target)
	if err != nil {
		return err
	}
	return errors.Join(open.Close(), f.Unmount(target))
}
