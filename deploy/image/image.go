package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	entrypoint = "/liveconfig-driver"
	title      = "liveconfig"
	// bomType is CycloneDX's media type.
	bomType types.MediaType = "application/vnd.cyclonedx+json"
)

// labels are those of the Dockerfile; a test compares them.
func labels(s stamp) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.source":   "https://github.com/liveconfig-csi/liveconfig",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  s.version,
		"org.opencontainers.image.revision": s.revision,
	}
}

// newLayer puts programs into the root directory.
func newLayer(programs []program, modified time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, p := range programs {
		header := &tar.Header{
			Name: p.name, Mode: 0o755, Size: int64(len(p.content)), ModTime: modified, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add %s to the layer: %w", p.name, err)
		}
		if _, err := w.Write(p.content); err != nil {
			return nil, fmt.Errorf("add %s to the layer: %w", p.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end the layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// newImage makes the image of one platform.
func newImage(platform v1.Platform, programs []program, s stamp) (v1.Image, error) {
	layer, err := newLayer(programs, s.created)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: s.created}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: created,
		Config: v1.Config{Entrypoint: []string{entrypoint}, Labels: labels(s)},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: created, CreatedBy: "go build ./cmd/liveconfig-..."},
	})
}

// newBOMImage makes what registries keep beside the image subject and list as referring to it: a manifest with bom as
// its layer and its type as the type of the whole.
func newBOMImage(bom []byte, subject v1.Descriptor, s stamp) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), bomType)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(bom, bomType)})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.CreatedAt(img, v1.Time{Time: s.created}); err != nil {
		return nil, err
	}
	// Subject gives back what it gets: an image.
	return mutate.Subject(img, subject).(v1.Image), nil //nolint:errcheck // As the library says.
}
