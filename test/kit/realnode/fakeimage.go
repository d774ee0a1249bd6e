package realnode

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// FakeImage is an image under the name of another one that a node without a registry cannot pull. It has all that [BoxImage]
// has, and separate programs.
type FakeImage struct {
	// Ref is the image's name, as pods write it.
	Ref string
	// Programs are shell scripts by the names of the programs that they stand in for. They can be called by name alone.
	Programs map[string]string
	// Binary is a static program of this machine, which the image has in /bin, and in / as well. Empty: none.
	Binary string
	// Entrypoint and Cmd are the image's own.
	Entrypoint, Cmd []string
}

// ImportStandIns gives the runtime stand-ins for images.
func (m *Node) ImportStandIns(ctx context.Context, images ...FakeImage) error {
	box, err := m.makeImage(ctx)
	if err != nil {
		return fmt.Errorf("make the images that stand in: %w", err)
	}
	all := map[string]v1.Image{}
	for _, s := range images {
		if all[s.Ref], err = s.on(box); err != nil {
			return fmt.Errorf("make an image that stands in for %s: %w", s.Ref, err)
		}
	}
	archive := m.path("stand-ins.tar")
	if err := writeArchive(archive, all); err != nil {
		return err
	}
	return m.ImportImage(ctx, archive)
}

// on adds what is the stand-in's own to an image.
func (s FakeImage) on(base v1.Image) (v1.Image, error) {
	l := newLayer()
	for program, script := range s.Programs {
		l.add(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + program, Mode: 0o755}, []byte("#!/bin/sh\n"+script))
	}
	if s.Binary != "" {
		data, err := os.ReadFile(s.Binary)
		if err != nil {
			return nil, err
		}
		program := filepath.Base(s.Binary)
		l.add(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + program, Mode: 0o755}, data)
		l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: program, Linkname: "bin/" + program}, nil)
	}
	image, err := l.on(base)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	changed := config.Config
	changed.Entrypoint, changed.Cmd = s.Entrypoint, s.Cmd
	return mutate.Config(image, changed)
}
