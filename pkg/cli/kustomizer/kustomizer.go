// Package kustomizer renders kustomizations whose files are all on this machine.
//
// It does not know flags, or the objects that it renders.
package kustomizer

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
)

// Render returns the objects of the kustomization in a directory, as `kubectl kustomize` prints
// them. It refuses a kustomization that would have kustomize fetch something.
func Render(dir string) (string, error) {
	if err := requireDirectory(dir); err != nil {
		return "", err
	}
	root, err := filepath.Abs(dir) // Kustomize would clone a relative path that begins with github.com/.
	if err != nil {
		return "", err
	}
	files, options := newLocalFiles(), krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // As in kubectl.
	objects, err := krusty.MakeKustomizer(options).Run(files, root)
	if files.refusal != nil { // Kustomize reports a file that it cannot read as one that is not there.
		err = files.refusal
	}
	if err != nil {
		return "", fmt.Errorf("render the kustomization in %s: %w", dir, err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		return "", fmt.Errorf("write the objects of the kustomization in %s: %w", dir, err)
	}
	return string(text), nil
}

func requireDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file: name the directory that has the kustomization", dir)
	}
	return nil
}
