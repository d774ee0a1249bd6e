package selection

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomizer"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// Kustomization is the value of --kustomize: a directory with a kustomization. It refuses a URL
// when it is set.
type Kustomization struct {
	dir *string
	c   *cobra.Command
}

// AddKustomizeFlag adds --kustomize, which sets a directory.
func AddKustomizeFlag(c *cobra.Command, dir *string) {
	c.Flags().VarP(&Kustomization{dir: dir, c: c}, "kustomize", "k",
		"directory of a kustomization of which all files are on this machine")
}

// Set sets the directory.
func (k *Kustomization) Set(dir string) error {
	if strings.Contains(dir, "://") {
		return fmt.Errorf("it is a URL, and the plugin fetches none: clone the repository and use -k DIR, or pipe "+
			"it with `kubectl kustomize '%s' | %s -f -`", strings.ReplaceAll(dir, "'", `'\''`), k.c.CommandPath())
	}
	if *k.dir != "" {
		return fmt.Errorf("it is already %s: name one directory", *k.dir)
	}
	*k.dir = dir
	return nil
}

// String returns the directory.
func (k *Kustomization) String() string {
	if k.dir == nil { // It is the zero value, with which pflag compares.
		return ""
	}
	return *k.dir
}

// Type is what help calls the value.
func (*Kustomization) Type() string { return "string" }

// ReadRendered reads what --filename names, and renders what --kustomize names. Lines of what is
// rendered are those that `kubectl kustomize` prints.
func ReadRendered(c *session.Session, in manifest.Input, dir, command string) ([]manifest.File, error) {
	if len(in.Names) == 0 && dir == "" {
		return nil, errors.New("name the manifests: --filename FILE, or - for stdin, or --kustomize DIR")
	}
	var files []manifest.File
	if len(in.Names) > 0 {
		found, err := ReadManifests(c, in)
		if err != nil {
			return nil, err
		}
		files = found
	}
	if dir == "" {
		return files, nil
	}
	text, err := kustomizer.Render(dir)
	if _, isRefused := errors.AsType[*kustomizer.RefusedError](err); isRefused {
		return nil, fmt.Errorf("%w; `kubectl kustomize %s | %s -f -` reads what kubectl renders", err, dir, command)
	}
	if err != nil {
		return nil, err
	}
	return append(files, manifest.File{Name: "kubectl kustomize " + dir, Text: text}), nil
}
