package fileset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// layouts are the ways in which the driver writes a volume.
func layouts() map[string]atomicdir.Writer {
	return map[string]atomicdir.Writer{
		"Atomic": atomicdir.Atomic{}, "Replace": atomicdir.Replace{}, "InPlace": atomicdir.InPlace{},
	}
}

// volume is a directory that a writer has written.
type volume struct {
	path   string
	root   *os.File
	writer atomicdir.Writer
}

func newVolume(t testing.TB, writer atomicdir.Writer) volume {
	t.Helper()
	path := t.TempDir()
	root, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return volume{path, root, writer}
}

// files are the contents of a volume, by path.
type files map[string]string

func (v volume) write(t testing.TB, want files) {
	t.Helper()
	must(t, v.tryWrite(want))
}

func (v volume) tryWrite(want files) error {
	var list []tree.File
	for path, data := range want {
		list = append(list, tree.File{Path: path, Data: []byte(data), Mode: 0o644})
	}
	made, err := tree.New(list)
	if err != nil {
		return err
	}
	made.DirMode, made.UID, made.GID = 0o755, os.Getuid(), os.Getgid()
	_, err = v.writer.Write(v.root, made)
	return err
}

func (v volume) dir() environ.Source { return environ.Source{Kind: environ.Dir, Path: v.path} }

func (v volume) key(name string) environ.Source {
	return environ.Source{Kind: environ.Key, Name: "KEY", Path: filepath.Join(v.path, name)}
}

func (v volume) envFile(name string) environ.Source {
	return environ.Source{Kind: environ.EnvFile, Path: filepath.Join(v.path, name)}
}

// read returns what sources hold, as name=data.
func read(ctx context.Context, sources ...environ.Source) ([][]string, error) {
	set, err := fileset.Read(ctx, sources)
	all := make([][]string, len(set.Contents))
	for i, c := range set.Contents {
		err = errors.Join(err, c.Err)
		if c.Missing {
			all[i] = []string{"missing"}
		}
		for _, f := range c.Files {
			all[i] = append(all[i], fmt.Sprintf("%s=%s", f.Name, f.Data))
		}
	}
	return all, err
}

// pause lets readers come through between two writes.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Millisecond):
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
