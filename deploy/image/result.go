package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// result is what is written or pushed.
type result struct {
	// index has one image for each platform.
	index v1.ImageIndex
	// local is the image of this machine's architecture, or the first if there is none.
	local v1.Image
	// bom lists what is in all of them. bomImage holds it, and refers to index.
	bom      []byte
	bomImage v1.Image
}

// makeResult compiles and assembles everything in memory.
func makeResult(ctx context.Context, cfg config, epoch string, stderr io.Writer) (*result, error) {
	var (
		r      result
		s      stamp
		builds []platformBuild
		adds   []mutate.IndexAddendum
	)
	for _, platform := range cfg.platforms {
		programs, err := build(ctx, cfg.source, platform, stderr)
		if err != nil {
			return nil, err
		}
		if s, err = stampOf(programs[0].info, epoch); err != nil {
			return nil, err
		}
		img, err := newImage(platform, programs, s)
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", platform, err)
		}
		if r.local == nil || platform.Architecture == runtime.GOARCH {
			r.local = img
		}
		builds = append(builds, platformBuild{platform, programs})
		adds = append(adds, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	r.index = mutate.AppendManifests(empty.Index, adds...)
	return &r, r.addBOM(builds, s)
}

func (r *result) addBOM(builds []platformBuild, s stamp) error {
	subject, err := partial.Descriptor(r.index)
	if err != nil {
		return fmt.Errorf("make the index: %w", err)
	}
	if r.bom, err = newBOM(builds, s); err != nil {
		return fmt.Errorf("list what is in the image: %w", err)
	}
	r.bomImage, err = newBOMImage(r.bom, *subject, s)
	return err
}

// write puts everything below dir. What is there already is replaced entry by entry, and nothing else is touched.
func (r *result) write(dir string, tag name.Tag) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Images are no secrets.
		return err
	}
	staging, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	if err := r.writeLayout(filepath.Join(staging, "oci"), tag); err != nil {
		return err
	}
	if err := tarball.WriteToFile(filepath.Join(staging, "docker.tar"), tag, r.local); err != nil {
		return err
	}
	bom := filepath.Join(staging, "sbom.cdx.json")
	if err := os.WriteFile(bom, r.bom, 0o644); err != nil { //nolint:forbidigo,gosec // It moves into place.
		return err
	}
	return moveAll(staging, dir)
}

func (r *result) writeLayout(dir string, tag name.Tag) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// Tools that copy layouts find an image by its tag, and containerd names it when it imports one.
	names := map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		"io.containerd.image.name":          strings.Replace(tag.Name(), name.DefaultRegistry, "docker.io", 1),
	}
	if err := path.AppendIndex(r.index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	return path.AppendImage(r.bomImage)
}

// moveAll moves the entries of one directory into another of the same file system.
func moveAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target := filepath.Join(to, e.Name())
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}
	return nil
}

// push sends everything to tag's registry, with the credentials that docker login stored.
func (r *result) push(ctx context.Context, tag name.Tag) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, r.index, options...); err != nil {
		return err
	}
	digest, err := r.bomImage.Digest()
	if err != nil {
		return err
	}
	return remote.Write(tag.Context().Digest(digest.String()), r.bomImage, options...)
}
