package volumefs_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

func exchange(t *testing.T, a, b string) {
	t.Helper()
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Error(err)
	}
}

// TestALinkThatComesInBetween has the target's parent exchanged for a link right after it was looked up. What was meant is
// what was there then.
func TestALinkThatComesInBetween(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	mine, theirs, link := mustMakeAll(t, g.target("mine")), mustMakeAll(t, g.target("theirs")), g.target("link")
	mustLink(t, theirs, link)
	swap := func() { exchange(t, mine, link) }

	before := listing(t, theirs)
	expect.NoError(t, g.PublishWhile(limits(), mine+"/mount", swap))
	checkUnchanged(t, theirs, before)
	swap()
	checkMounted(t, g.FS, mine+"/mount", true)

	g.publish(t, theirs+"/mount", "theirs")
	before = listing(t, theirs)
	expect.NoError(t, g.UnmountWhile(mine+"/mount", swap))
	checkUnchanged(t, theirs, before)
	checkFile(t, theirs+"/mount/key", "theirs")
	swap()
	checkGone(t, mine+"/mount")
}

// TestATargetThatBecomesALinkInBetween has a link in the target's place when it is unmounted, although there was none when
// it was looked at.
func TestATargetThatBecomesALinkInBetween(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.publish(t, g.target("theirs"), "theirs")
	mustLink(t, g.target("theirs"), g.target("mount"))
	before := listing(t, g.dir)
	if err := g.UnmountBlindly(g.target("mount")); !errors.Is(err, unix.EINVAL) {
		t.Errorf("unmount = %v, want %v", err, unix.EINVAL)
	}
	checkUnchanged(t, g.dir, before)
}

// TestAParentThatGoesInBetween has it removed right after it was looked up.
func TestAParentThatGoesInBetween(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	parent := g.target("mine")
	remove := func() { expect.NoError(t, unix.Rmdir(parent)) }
	mustMakeAll(t, parent)
	if err := g.PublishWhile(limits(), parent+"/mount", remove); !errors.Is(err, unix.ENOENT) {
		t.Errorf("publish = %v, want %v", err, unix.ENOENT)
	}
	mustMakeAll(t, parent)
	if err := g.UnmountWhile(parent+"/mount", remove); err != nil {
		t.Errorf("unmount = %v, want nil", err)
	}
	checkGone(t, parent)
}

// TestAParentThatComesAndGoes exchanges the target's parent for a link and back, as fast as it can, during the lives of
// many volumes. Where the link leads is a volume of somebody else, and a directory that is empty.
func TestAParentThatComesAndGoes(t *testing.T) {
	t.Parallel()
	const rounds = 300
	g := newGround(t)
	mine, link := mustMakeAll(t, g.target("mine")), g.target("link")
	theirs, empty := mine+"/mount", mine+"/empty"
	g.publish(t, mustMakeAll(t, g.target("theirs"))+"/mount", "theirs")
	mustMakeAll(t, g.target("theirs/empty"))
	mustLink(t, g.target("theirs"), link)
	before := listing(t, g.target("theirs"))

	ctx, cancel := context.WithCancel(t.Context())
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for ctx.Err() == nil {
			exchange(t, mine, link)
			exchange(t, mine, link)
		}
	})
	for range rounds {
		for _, target := range []string{theirs, empty} {
			tryLife(t, g, target)
		}
	}
	cancel()
	swaps.Wait()
	checkUnchanged(t, g.target("theirs"), before)
	for _, target := range []string{theirs, empty} { // Now all is quiet.
		expect.NoError(t, g.Unmount(target))
		expect.NoError(t, liveAndDie(g.FS, target, "one"))
	}
}

// tryLife makes every call for a target. Each works, or reports that a link is in the way, or that there is no volume, or one
// that an earlier life could not take away.
func tryLife(t *testing.T, g *ground, target string) {
	t.Helper()
	view, err := g.Create(limits())
	expect.NoError(t, err)
	defer view.Close()
	errs := []error{view.Publish(target)}
	_, err = g.Mounted(target)
	errs = append(errs, err)
	_, err = g.Usage(target)
	errs = append(errs, err)
	live, err := g.Open(target)
	if live != nil {
		_ = live.Close()
	}
	errs = append(errs, err, g.Unmount(target))
	for _, err := range errs {
		_, link := errors.AsType[*volumefs.SymlinkError](err)
		if err != nil && !link && !errors.Is(err, volumefs.ErrNotMounted) && !errors.Is(err, volumefs.ErrMounted) {
			t.Errorf("%v", err)
		}
	}
}
