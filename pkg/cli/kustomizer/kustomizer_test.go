package kustomizer_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomizer"
)

// TestRender: the objects of two directories have prefixes and hashes.
func TestRender(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"top/kustomization.yaml":  "resources: [../base]\nnamePrefix: shop-\n",
		"base/kustomization.yaml": "configMapGenerator: [{name: web, files: [app=app.conf]}]\n",
		"base/app.conf":           "https://example.com is content, and no path\n",
	})
	got, err := kustomizer.Render(filepath.Join(dir, "top"))
	if err != nil || !strings.Contains(got, "name: shop-web-") || !strings.Contains(got, "https://example.com") {
		t.Errorf("Render() = %s, %v, want a ConfigMap shop-web-HASH", got, err)
	}
}

// TestRenderFetchesNothing: a kustomization that names something remote is refused before kustomize asks for it, on
// whatever level it is and in whatever field.
func TestRenderFetchesNothing(t *testing.T) {
	fetched := filepath.Join(t.TempDir(), "fetched")
	useGit(t, "#!/bin/sh\necho \"$@\" >>"+fetched+"\nexit 1\n")
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.NotFound(w, nil)
	}))
	t.Cleanup(server.Close)
	for _, text := range []string{
		"resources: [URL/web.yaml]",
		"Resources: [URL/web.yaml]",
		"bases: [URL/web.yaml]",
		"resources: [github.com/org/repo]",
		"resources: ['GitHub.com:org/repo']",
		"resources: ['git@example.com:org/repo']",
		"resources: ['git::ssh://example.com/org/repo']",
		"resources: ['git::HTTPS://example.com/org/repo']",
		"resources: ['file:///org/repo']",
		"components: ['https://example.com/org/repo//a?ref=v1']",
		"crds: [URL/crd.json]",
		"configurations: [URL/names.yaml]",
		"openapi: {path: URL/schema.json}",
		"patches: [{path: URL/patch.yaml}]",
		"patchesJson6902: [{path: URL/patch.yaml, target: {kind: Pod, name: a, version: v1}}]",
		"patchesStrategicMerge: [URL/patch.yaml]",
		"replacements: [{path: URL/replacement.yaml}]",
		"configMapGenerator: [{name: a, files: [URL/a]}]",
		"configMapGenerator: [{name: a, files: ['a=URL/a']}]",
		"configMapGenerator: [{name: a, envs: [URL/a]}]",
		"configMapGenerator: [{name: a, env: URL/a}]",
		"secretGenerator: [{name: a, files: ['a=URL/a']}]",
		"secretGenerator: [{name: a, envs: [URL/a]}]",
		"generators: [plugin.yaml]",
		"transformers: [plugin.yaml]",
		"validators: [plugin.yaml]",
		"helmCharts: [{name: web, repo: URL}]",
		"helmChartInflationGenerator: [{chartName: web, chartRepoUrl: URL}]",
	} {
		text = strings.ReplaceAll(text, "URL", server.URL)
		plugin := "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: a}\npath: " + server.URL + "/patch.yaml\n"
		for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
			dir := writeFiles(t, map[string]string{
				"top/kustomization.yaml": "resources: [../base]\n", "base/" + name: text + "\n", "base/plugin.yaml": plugin,
			})
			_, err := kustomizer.Render(filepath.Join(dir, "top"))
			refused, isRefused := errors.AsType[*kustomizer.RefusedError](err)
			if !isRefused || refused.File != filepath.Join(dir, "base", name) || !strings.Contains(err.Error(), "fetch") {
				t.Errorf("Render() of %s with %s = %v, want a refusal that names the file", name, text, err)
			}
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("kustomize sent %d requests, want none", n)
	}
	if calls, err := os.ReadFile(fetched); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kustomize ran git %s, %v, want that it does not", calls, err)
	}
}

// TestRenderOfADirectoryLikeARepository: kustomize would clone a relative path that begins so.
func TestRenderOfADirectoryLikeARepository(t *testing.T) {
	useGit(t, "#!/bin/sh\nexit 1\n")
	dir := writeFiles(t, map[string]string{"github.com/org/repo/kustomization.yaml": "configMapGenerator: [{name: web}]\n"})
	t.Chdir(dir)
	if got, err := kustomizer.Render("github.com/org/repo"); err != nil || !strings.Contains(got, "kind: ConfigMap") {
		t.Errorf("Render() = %s, %v, want the ConfigMap", got, err)
	}
}

// TestRenderIsBounded: bases that each name the one before them twice stand for very many.
func TestRenderIsBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{"0/kustomization.yaml": "configMapGenerator: [{name: web}]\n"}
	for i := range 20 {
		for _, side := range []string{"a", "b"} {
			files[fmt.Sprintf("%d%s/kustomization.yaml", i+1, side)] = fmt.Sprintf("resources: [../%d]\nnamePrefix: %s\n", i, side)
		}
		files[fmt.Sprintf("%d/kustomization.yaml", i+1)] = fmt.Sprintf("resources: [../%da, ../%[1]db]\n", i+1)
	}
	_, err := kustomizer.Render(filepath.Join(writeFiles(t, files), "20"))
	if _, isRefused := errors.AsType[*kustomizer.RefusedError](err); !isRefused || !strings.Contains(err.Error(), "4000 files") {
		t.Errorf("Render() = %v, want a refusal that names the limit", err)
	}
}

// TestRenderErrors: errors name what is wrong.
func TestRenderErrors(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"file": "", "empty/a": "", "typo/kustomization.yaml": "resource: [a]\n", "gone/kustomization.yaml": "resources: [a.yaml]\n",
	})
	for name, want := range map[string]string{
		"none": "no such file", "file": "is a file: name the directory", "empty": "unable to find one of 'kustomization.yaml'",
		"typo": `unknown field "resource"`, "gone": "a.yaml",
	} {
		_, err := kustomizer.Render(filepath.Join(dir, name))
		if _, isRefused := errors.AsType[*kustomizer.RefusedError](err); isRefused || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Render(%s) = %v, want an error with %q that is no refusal", name, err, want)
		}
	}
}

// useGit puts a git before the one of this machine. Kustomize looks for it in the PATH.
func useGit(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
