package volumefs

import (
	"os"

	"golang.org/x/sys/unix"
)

// SourceByPath returns the source of the mount that mountByPath finds for a target whose server is gone.
func (f *FS) SourceByPath(target string) (string, error) {
	p, err := f.find(target)
	if err != nil {
		return "", err
	}
	defer p.Close()
	m, err := mountByPath(p, unix.ENOTCONN)
	if err != nil {
		return "", err
	}
	return m.Source, nil
}

// PublishWhile publishes an empty volume at target and calls meanwhile when the target's parent has been looked up.
func (f *FS) PublishWhile(l Limits, target string, meanwhile func()) error {
	mnt, err := f.newMount(l)
	if err != nil {
		return err
	}
	defer mnt.Close()
	p, err := f.find(target)
	if err != nil {
		return err
	}
	defer p.Close()
	meanwhile()
	return publishAt(mnt, p)
}

// UnmountBlindly takes away the topmost mount at target, without a look at what is there.
func (f *FS) UnmountBlindly(target string) error {
	p, err := f.find(target)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.unmount()
}

// UnmountWhile unmounts what is at target and calls meanwhile when the target's parent has been looked up.
func (f *FS) UnmountWhile(target string, meanwhile func()) error {
	p, err := f.find(target)
	if err != nil {
		return err
	}
	defer p.Close()
	meanwhile()
	return f.unmountAt(p)
}

// OpenBeneath opens a directory below another one by a path that find would not make.
func OpenBeneath(dir *os.File, path string) error {
	fd, err := openBeneath(int(dir.Fd()), path)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
