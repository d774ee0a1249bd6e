package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// module is one as `go version -m` prints it; its sum is in hexadecimal.
type module struct{ Path, Version, Sum string }

func checkBOM(t *testing.T, b built) {
	t.Helper()
	var bom cdx.BOM
	text := readFile(t, filepath.Join(b.out, "sbom.cdx.json"))
	must(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom))
	components := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		components[c.BOMRef] = c
	}
	needs := map[string][]string{}
	for _, d := range *bom.Dependencies {
		needs[d.Ref] = *d.Dependencies
	}
	seen := map[string]bool{}
	for platform, entries := range b.entries {
		dir := extract(t, entries)
		for _, program := range programs() {
			ref := platform + "/" + program
			seen[ref] = true
			main, libraries := goVersion(t, filepath.Join(dir, program))
			wantURL := "pkg:golang/" + main.Path + "@" + main.Version + "#cmd/" + program
			if got := components[ref].PackageURL; got != wantURL {
				t.Errorf("package URL of %s = %q, want %q", ref, got, wantURL)
			}
			got := map[module]bool{}
			for _, on := range needs[ref] {
				seen[on] = true
				got[moduleOf(components[on])] = true
			}
			if diff := cmp.Diff(libraries, got); diff != "" {
				t.Errorf("modules of %s (-want +got):\n%s", ref, diff)
			}
		}
	}
	for ref := range components {
		if !seen[ref] {
			t.Errorf("component %s is in no program", ref)
		}
	}
	if got, want := len(needs[title]), 2*len(programs()); got != want {
		t.Errorf("the image has %d programs, want %d on 2 platforms: %v", got, want, needs[title])
	}
}

// goVersion returns the module that a program is in, and those that it is linked from, with the standard library.
func goVersion(t *testing.T, path string) (module, map[module]bool) {
	t.Helper()
	lines := strings.Split(output(t, exec.CommandContext(t.Context(), "go", "version", "-m", path)), "\n")
	_, goVersion, _ := strings.Cut(lines[0], ": go")
	var main module
	libraries := map[module]bool{{Path: "stdlib", Version: goVersion}: true}
	for _, line := range lines[1:] {
		fields := strings.Split(strings.TrimPrefix(line, "\t"), "\t")
		switch fields[0] {
		case "mod":
			main = module{Path: fields[1], Version: fields[2]}
		case "dep":
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(fields[3], "h1:"))
			must(t, err)
			libraries[module{fields[1], fields[2], hex.EncodeToString(sum)}] = true
		case "=>":
			t.Fatalf("a module is replaced: %s", line)
		}
	}
	return main, libraries
}

func moduleOf(c cdx.Component) module {
	m := module{Path: c.Name, Version: c.Version}
	if c.Hashes != nil {
		m.Sum = (*c.Hashes)[0].Value
	}
	return m
}

func checkReferrer(t *testing.T, b built) {
	t.Helper()
	top, err := layout.ImageIndexFromPath(filepath.Join(b.out, "oci"))
	must(t, err)
	manifests := manifestOf(t, top).Manifests
	if len(manifests) != 2 {
		t.Fatalf("the layout has %d entries, want the index and the list", len(manifests))
	}
	checkRefers(t, b, manifests[0].Digest, func() (v1.Image, error) { return top.Image(manifests[1].Digest) })

	ref, err := name.NewTag(b.image)
	must(t, err)
	referrers, err := remote.Referrers(ref.Context().Digest(manifests[0].Digest.String()), remote.WithContext(t.Context()))
	must(t, err)
	pushed := manifestOf(t, referrers).Manifests
	if len(pushed) != 1 || pushed[0].ArtifactType != string(bomType) {
		t.Fatalf("referrers in the registry = %+v, want one of type %s", pushed, bomType)
	}
	checkRefers(t, b, manifests[0].Digest, func() (v1.Image, error) {
		return remote.Image(ref.Context().Digest(pushed[0].Digest.String()), remote.WithContext(t.Context()))
	})
}

// checkRefers checks that the image holds the list, and refers to subject.
func checkRefers(t *testing.T, b built, subject v1.Hash, get func() (v1.Image, error)) {
	t.Helper()
	img, err := get()
	must(t, err)
	manifest, err := img.Manifest()
	must(t, err)
	if manifest.Subject == nil || manifest.Subject.Digest != subject {
		t.Errorf("the list refers to %+v, want %s", manifest.Subject, subject)
	}
	want, _, err := v1.SHA256(bytes.NewReader(readFile(t, filepath.Join(b.out, "sbom.cdx.json"))))
	must(t, err)
	if got := manifest.Layers; len(got) != 1 || got[0].Digest != want || got[0].MediaType != bomType {
		t.Errorf("content of the list = %+v, want one of type %s and hash %s", got, bomType, want)
	}
}

func TestModuleURL(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ path, version, below, want string }{
		"a module":         {"k8s.io/api", "v0.37.2", "", "pkg:golang/k8s.io/api@v0.37.2"},
		"no slash":         {"stdlib", "1.26.8", "", "pkg:golang/stdlib@1.26.8"},
		"a version with +": {"example.com/a/b", "v2.0.0+incompatible", "", "pkg:golang/example.com/a/b@v2.0.0%2Bincompatible"},
		"upper case becomes lower, as the type golang wants it": {"example.com/A/B", "v1.0.0", "", "pkg:golang/example.com/a/b@v1.0.0"},
		"a folder":   {"example.com/a", "v1.0.0", "cmd/b", "pkg:golang/example.com/a@v1.0.0#cmd/b"},
		"no version": {"example.com/a", "", "", "pkg:golang/example.com/a"},
	}
	for name, tc := range tests {
		got, err := moduleURL(tc.path, tc.version, tc.below)
		if err != nil || got != tc.want {
			t.Errorf("%s: moduleURL(%s, %s, %s) = %q, %v, want %q", name, tc.path, tc.version, tc.below, got, err, tc.want)
		}
	}
}

func TestReplacedModule(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
	}}
	got, err := libraryComponents(info)
	must(t, err)
	if len(got) != 2 || got[1].Name != "example.com/fork" || got[1].Version != "v1.0.1" {
		t.Errorf("components = %+v, want what stands in for the module", got)
	}
}

func TestUnknownSum(t *testing.T) {
	t.Parallel()
	for _, sum := range []string{"h2:AAAA", "h1:AAAA", "h1:%"} {
		if c, err := libraryComponent("example.com/a", "v1.0.0", sum); err == nil {
			t.Errorf("component of a module with sum %s = %+v, want an error", sum, c)
		}
	}
}
