package volumefs_test

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func TestTry(t *testing.T) {
	f := volumefs.New(volumefs.Config{Source: "csi.test"})
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	target := t.TempDir() + "/mount"
	v, err := f.Create(volumefs.Limits{Bytes: 65536, Inodes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Root.WriteFile("a", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := v.Publish(target); err != nil {
		t.Fatal(err)
	}
	v.Close()
	w, err := f.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Root.WriteFile("a", []byte("y"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(target + "/a")
	t.Logf("%s", b)
	w.Close()
	b, _ = os.ReadFile("/proc/self/mountinfo")
	t.Logf("%s", b)
	m, err := f.Mounted(target)
	t.Log(m, err)
	u, err := f.Usage(target)
	t.Log(u, err)
	t.Log(os.WriteFile(target+"/a", nil, 0o644))
	t.Log(f.Unmount(target))
	t.Log(f.Unmount(target))
	m, err = f.Mounted(target)
	t.Log(m, err)
}
