package reload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/files/layout"
)

// mostDirectories is how many directories are read below the one that is watched.
const mostDirectories = 1000

// Content is what a directory has, without the content itself.
type Content struct {
	// Digest differs if names or bytes of files differ. It must not be shown to anybody who may not
	// read the files.
	Digest string
	Files  int
}

// Directory reads a directory, with those below it, as one set.
type Directory struct {
	// Path is that of the directory.
	Path    string
	Watcher *fileset.Watcher
}

// Read reads the files and watches them from then on. A directory that does not exist has no files.
func (d Directory) Read(ctx context.Context) (Content, error) {
	sources, err := directories(d.Path)
	if err != nil {
		return Content{}, err
	}
	set, err := fileset.ReadDigests(ctx, sources)
	d.Watcher.Watch(set)
	if err != nil {
		return Content{}, fmt.Errorf("read %s: %w", d.Path, err)
	}
	h := sha256.New()
	part := func(b []byte) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(b))) // A hash takes everything.
		h.Write(b)
	}
	c := Content{}
	for i, content := range set.Contents {
		if content.Err != nil {
			return Content{}, fmt.Errorf("read %s: %w", sources[i].Path, content.Err)
		}
		for _, file := range content.Files {
			part([]byte(filepath.Join(strings.TrimPrefix(sources[i].Path, d.Path), file.Name)))
			part(file.Data)
			c.Files++
		}
	}
	c.Digest = hex.EncodeToString(h.Sum(nil))
	return c, nil
}

// directories returns a directory with those below it, in the order of their names. Links are
// followed below the directory only where they stay in it, as those of a volume do.
func directories(top string) ([]environ.Source, error) {
	sources := []environ.Source{{Kind: environ.Dir, Path: top}}
	root, err := os.OpenRoot(top)
	if err != nil {
		return sources, nil // It is not there, or no directory: reading it has the reason.
	}
	defer root.Close()
	for i := 0; i < len(sources); i++ {
		below := strings.TrimPrefix(strings.TrimPrefix(sources[i].Path, top), "/")
		names, err := namesIn(root, below)
		if err != nil {
			continue // It has gone meanwhile: then something else has changed too.
		}
		for _, name := range names {
			path := filepath.Join(below, name)
			info, err := root.Stat(path)
			if err != nil || !info.IsDir() || strings.HasPrefix(name, layout.Reserved) {
				continue
			}
			if len(sources) == mostDirectories {
				return nil, fmt.Errorf("%s has more than %d directories", top, mostDirectories)
			}
			sources = append(sources, environ.Source{Kind: environ.Dir, Path: filepath.Join(top, path)})
		}
	}
	return sources, nil
}

func namesIn(root *os.Root, below string) ([]string, error) {
	dir, err := root.Open(filepath.Join(".", below))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	slices.Sort(names)
	return names, nil
}
