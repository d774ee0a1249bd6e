package realnode

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The images that every machine has. There is no registry: pods must not insist on pulling.
const (
	// BoxImage has a shell with the usual commands, and box, which watches files.
	BoxImage = "liveconfig.test/box:1"
	// PauseImage holds the namespaces of a pod.
	PauseImage = "liveconfig.test/pause:1"
)

// busybox is the shell.
func busybox(repo string) string { return Debian().program(repo, "busybox") }

// makeImages makes one archive of all images.
func (m *Node) makeImages(ctx context.Context) (string, error) {
	if err := m.buildBox(ctx); err != nil {
		return "", err
	}
	image, err := m.makeImage(ctx)
	if err != nil {
		return "", fmt.Errorf("make the images: %w", err)
	}
	pause, err := mutate.Config(image, v1.Config{Entrypoint: []string{"/bin/box", "pause"}})
	if err != nil {
		return "", err
	}
	archive := m.path("images.tar")
	return archive, writeArchive(archive, map[string]v1.Image{BoxImage: image, PauseImage: pause})
}

// writeArchive writes images by their names, as pods write them.
func writeArchive(path string, images map[string]v1.Image) error {
	tagged := map[name.Tag]v1.Image{}
	for ref, image := range images {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		tagged[tag] = image
	}
	return tarball.MultiWriteToFile(path, tagged)
}

// buildBox builds the program of the images, unless the machine was given one.
func (m *Node) buildBox(ctx context.Context) error {
	if m.cfg.Box != "" {
		return nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", m.box(), "./kit/realnode/box")
	build.Dir = filepath.Join(m.cfg.Repo, "test")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+m.path()) // It goes with the node, also when the build is killed.
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of the images: %w\n%s", err, out)
	}
	return nil
}

func (m *Node) box() string { return cmp.Or(m.cfg.Box, m.path("box")) }

// makeImage makes an image of one layer with busybox under all its names.
func (m *Node) makeImage(ctx context.Context) (v1.Image, error) {
	shell := busybox(m.cfg.Repo)
	applets, err := exec.CommandContext(ctx, shell, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of busybox: %w", err)
	}
	l := newLayer()
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys"} {
		l.add(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp", Mode: 0o1777}, nil)
	for path, source := range map[string]string{"bin/busybox": shell, "bin/box": m.box()} {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755}, data)
	}
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"}, nil)
		}
	}
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\n"))
	config := v1.Config{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: config})
	if err != nil {
		return nil, err
	}
	return l.on(base)
}

// layer collects the files of an image.
type layer struct {
	data bytes.Buffer
	tar  *tar.Writer
	err  error // The first.
}

func newLayer() *layer {
	l := &layer{}
	l.tar = tar.NewWriter(&l.data)
	return l
}

func (l *layer) add(header *tar.Header, data []byte) {
	if l.err != nil {
		return
	}
	header.Size = int64(len(data))
	if l.err = l.tar.WriteHeader(header); l.err == nil {
		_, l.err = l.tar.Write(data)
	}
}

// on returns an image with the layer on top of another one.
func (l *layer) on(base v1.Image) (v1.Image, error) {
	if err := errors.Join(l.err, l.tar.Close()); err != nil {
		return nil, err
	}
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(l.data.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(base, made)
}
