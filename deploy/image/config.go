package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// defaultImage is the name by which deploy/base asks for the image.
const defaultImage = "liveconfig:dev"

// config is what the command line says.
type config struct {
	// source is the checkout that is built, and out the directory that is written; both are absolute.
	source, out string
	tag         name.Tag
	platforms   []v1.Platform
	push        bool
}

func parse(args []string, usage io.Writer) (config, error) {
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.SetOutput(usage)
	source := fs.String("source", "../..", "the checkout to build")
	out := fs.String("out", "bin/image", "directory to write to; a relative one is below the checkout")
	image := fs.String("image", defaultImage, "NAME:TAG")
	platforms := fs.String("platforms", "linux/amd64,linux/arm64", "for which platforms to build")
	push := fs.Bool("push", false,
		"push to the registry that --image names, with the credentials that docker login stored")
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: everything is a flag", fs.Arg(0))
	}
	cfg := config{push: *push}
	err := errors.Join(cfg.setPaths(*source, *out), cfg.setTag(*image), cfg.setPlatforms(*platforms))
	return cfg, err
}

func (c *config) setPaths(source, out string) (err error) {
	if c.source, err = filepath.Abs(source); err != nil {
		return fmt.Errorf("find the checkout: %w", err)
	}
	c.out = out
	if !filepath.IsAbs(out) {
		c.out = filepath.Join(c.source, out)
	}
	return nil
}

func (c *config) setTag(image string) (err error) {
	// Without a tag it would be pushed as latest, which says nothing about what a node runs.
	if c.tag, err = name.NewTag(image, name.WithDefaultTag("")); err != nil {
		return fmt.Errorf("--image %q is not NAME:TAG: %w", image, err)
	}
	if c.tag.TagStr() == "" {
		return fmt.Errorf("--image %q has no tag: write NAME:TAG", image)
	}
	if c.push && !strings.Contains(image, "/") {
		return fmt.Errorf("--image %q names no registry to push to: write REGISTRY/NAME:TAG", image)
	}
	return nil
}

func (c *config) setPlatforms(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return fmt.Errorf("--platforms: %w", err)
		}
		if p.OS != "linux" || p.Architecture == "" || p.Variant != "" || p.OSVersion != "" {
			return fmt.Errorf("--platforms: %q is not linux/ARCHITECTURE", text)
		}
		if slices.ContainsFunc(c.platforms, p.Equals) {
			return fmt.Errorf("--platforms: %q is there twice", text)
		}
		c.platforms = append(c.platforms, *p)
	}
	return nil
}
