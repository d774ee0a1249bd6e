package fileset_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
)

// volume is a directory that a writer has written.
type volume struct{ volumes.Volume }

func newVolume(t testing.TB, writer atomicdir.Writer) volume {
	t.Helper()
	return volume{volumes.New(t, writer)}
}

// files are the contents of a volume, by path.
type files = map[string]string

func (v volume) write(t testing.TB, want files) {
	t.Helper()
	expect.NoError(t, v.Write(want))
}

func (v volume) dir() environ.Source { return environ.Source{Kind: environ.Dir, Path: v.Path} }

func (v volume) key(name string) environ.Source {
	return environ.Source{Kind: environ.Key, Name: "KEY", Path: filepath.Join(v.Path, name)}
}

func (v volume) envFile(name string) environ.Source {
	return environ.Source{Kind: environ.EnvFile, Path: filepath.Join(v.Path, name)}
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
