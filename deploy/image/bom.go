package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/package-url/packageurl-go"
)

// platformBuild is everything that was compiled for one platform.
type platformBuild struct {
	platform v1.Platform
	programs []program
}

// newBOM lists the programs of an image, and for each the modules that are linked into it, as the program itself says.
func newBOM(builds []platformBuild, s stamp) ([]byte, error) {
	image := cdx.Component{BOMRef: title, Type: cdx.ComponentTypeContainer, Name: title, Version: s.version}
	components := map[string]cdx.Component{}
	needs := map[string][]string{}
	for _, b := range builds {
		for _, p := range b.programs {
			c, err := programComponent(b.platform, p)
			if err != nil {
				return nil, err
			}
			libraries, err := libraryComponents(p.info)
			if err != nil {
				return nil, err
			}
			components[c.BOMRef] = c
			needs[image.BOMRef] = append(needs[image.BOMRef], c.BOMRef)
			for _, l := range libraries {
				components[l.BOMRef] = l
				needs[c.BOMRef] = append(needs[c.BOMRef], l.BOMRef)
			}
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.created.Format(time.RFC3339), Component: &image}
	bom.Components = sorted(components, func(_ string, c cdx.Component) cdx.Component { return c })
	bom.Dependencies = sorted(needs, func(ref string, on []string) cdx.Dependency {
		slices.Sort(on)
		return cdx.Dependency{Ref: ref, Dependencies: &on}
	})
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

// sorted returns what convert makes of a map's entries, by their keys.
func sorted[V, R any](m map[string]V, convert func(string, V) R) *[]R {
	var list []R
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, convert(key, m[key]))
	}
	return &list
}

// programComponent is a program of the project's module, by the hash of its file.
func programComponent(platform v1.Platform, p program) (cdx.Component, error) {
	inModule := strings.TrimPrefix(strings.TrimPrefix(p.info.Path, p.info.Main.Path), "/")
	url, err := moduleURL(p.info.Main.Path, p.info.Main.Version, inModule)
	if err != nil {
		return cdx.Component{}, err
	}
	sum := sha256.Sum256(p.content)
	return cdx.Component{
		BOMRef: platform.String() + "/" + p.name, Type: cdx.ComponentTypeApplication,
		Name: p.name, Version: p.info.Main.Version, Description: "for " + platform.String(), PackageURL: url,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}, nil
}

// libraryComponents are the modules that a program was linked from, but for its own, and Go's standard library.
func libraryComponents(info *debug.BuildInfo) ([]cdx.Component, error) {
	// Databases of vulnerabilities call it stdlib, and its versions have no prefix.
	std, err := libraryComponent("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
	if err != nil {
		return nil, err
	}
	libraries := []cdx.Component{std}
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		l, err := libraryComponent(m.Path, m.Version, m.Sum)
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, l)
	}
	return libraries, nil
}

// libraryComponent describes a module. Its sum is that of go.sum, or empty for one that has none.
func libraryComponent(module, version, sum string) (cdx.Component, error) {
	url, err := moduleURL(module, version, "")
	if err != nil {
		return cdx.Component{}, err
	}
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module, Version: version, PackageURL: url}
	if sum == "" {
		return c, nil
	}
	// A sum h1 is the SHA-256 of a list of the module's files and their hashes.
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return cdx.Component{}, fmt.Errorf("the sum %q of module %s is not of kind h1", sum, module)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	return c, nil
}

// moduleURL is the package URL of a module, or of the folder below in it.
func moduleURL(module, version, below string) (string, error) {
	dir, name := path.Split(module)
	url := packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(dir, "/"), name, version, nil, below)
	if err := url.Normalize(); err != nil {
		return "", fmt.Errorf("name module %s: %w", module, err)
	}
	return url.ToString(), nil
}
