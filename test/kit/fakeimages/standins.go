// Package fakeimages lists the images that the manifests of a folder name, for a node without a
// registry. Each image is busybox under the name of the real one. What is busybox there is busybox
// here. In place of a server is a script that does with the files what the real server does at the
// start, and fails as that would when it cannot read one.
//
// It does not know the node that gets the images, nor how the driver's own image is made.
package fakeimages

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// driverRepository has the driver's image, which nothing stands in for.
const driverRepository = "registry.example.com/liveconfig"

// For returns an image for each that a manifest in the folders of a folder names, without the
// driver's.
func For(dir string) ([]realnode.FakeImage, error) {
	refs, err := imagesIn(dir)
	if err != nil {
		return nil, fmt.Errorf("find the images of %s: %w", dir, err)
	}
	var images []realnode.FakeImage
	for _, ref := range refs {
		repository, _, _ := strings.Cut(ref, ":")
		if repository == driverRepository {
			continue
		}
		image, found := byRepository()[repository]
		if !found {
			return nil, fmt.Errorf("nothing stands in for the image %s, which a manifest in %s names", ref, dir)
		}
		image.Ref = ref
		images = append(images, image)
	}
	return images, nil
}

func imagesIn(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	images := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			var object any
			if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			collectImages(object, images)
		}
	}
	return slices.Sorted(maps.Keys(images)), nil
}

// collectImages finds containers wherever a kind of object has them.
func collectImages(value any, images map[string]bool) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			collectImages(v, images)
		}
	case map[string]any:
		image, isImage := value["image"].(string)
		if _, isContainer := value["name"]; isImage && isContainer {
			images[image] = true
		}
		for _, v := range value {
			collectImages(v, images)
		}
	}
}
