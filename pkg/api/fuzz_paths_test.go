package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// FuzzParsePaths lets the file system judge: two paths that Parse accepts in one volume can be written next to each
// other below one directory, as two files, and leave its reserved names alone.
func FuzzParsePaths(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "b"},
		{"foo", "foo/bar"},
		{"foo/bar/baz", "foo"},
		{"a//b", "a/b"},
		{"./..data_tmp", "...."},
		{"..", "../x"},
		{"p/..p/p../p..p", "a/..."},
		{"/etc/passwd", "."},
		{"y/", "z/."},
		{"a\x00b", "\n"},
		{"é ü/ 日本", `it's "x"\y`},
		{strings.Repeat("x", 255), strings.Repeat("x", 256)},
		{strings.Repeat("é", 128), strings.Repeat("a/", 2048)},
		{strings.Repeat("a/", 63) + "f", strings.Repeat("b/", 64) + "f"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		text, err := json.Marshal([]map[string]string{{"key": "a", "path": first}, {"key": "b", "path": second}})
		if err != nil {
			t.Fatalf("marshal the items: %v", err)
		}
		in := attributes{"sources": `[{"secret": {"name": "tls", "items": ` + string(text) + `}}]`}
		spec, err := api.Parse(in, "default")
		if err != nil {
			checkMistakes(t, err)
			return
		}
		checkSpec(t, spec)
		checkFiles(t, spec.Sources[0].Items)
	})
}

func checkFiles(t *testing.T, items []api.Item) {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatalf("open the volume: %v", err)
	}
	t.Cleanup(func() { _ = root.Close() })
	for _, it := range items {
		if err := root.MkdirAll(path.Dir(it.Path), 0o700); err != nil {
			t.Fatalf("make the directory of %q: %v", it.Path, err)
		}
		file, err := root.OpenFile(it.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatalf("create %q: %v", it.Path, err)
		}
		if err := file.Close(); err != nil {
			t.Errorf("close %q: %v", it.Path, err)
		}
		if name, _, _ := strings.Cut(it.Path, "/"); strings.HasPrefix(name, "..") {
			t.Errorf("%q takes the reserved name %q", it.Path, name)
		}
	}
}

// FuzzPathOf makes the path of a file from what authors of pods and owners of objects write.
func FuzzPathOf(f *testing.F) {
	f.Add("$(key)", "a.json", "team")
	f.Add(strings.Repeat("$(key)/", 63)+"$(name)", strings.Repeat("k", 253), strings.Repeat("a/", 1900))
	f.Add("$(namespace)/$(name)/$(key)", "..data", strings.Repeat("/", 4097))
	f.Add(strings.Repeat("/", 4096), "$(key)", "../..")
	f.Fuzz(func(t *testing.T, template, key, folder string) {
		in := attributes{"sources": fmt.Sprintf("[{configMap: {labelSelector: {}, path: %q, folderAnnotation: f}}]", template)}
		spec, err := api.Parse(in, "default")
		if err != nil || strings.Contains(key, "/") {
			return // No object has such a key.
		}
		var clean, problem string
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "orders"}
		took := allocated(func() { clean, problem = spec.Sources[0].Selection.PathOf(ref, key, folder) })
		if took > 64<<10 {
			t.Errorf("a path of %d, %d and %d bytes allocates %d", len(template), len(key), len(folder), took)
		}
		isInside := filepath.IsLocal(clean) && clean != "." && !strings.HasPrefix(clean, "..") && len(clean) <= 4096
		if problem == "" && !isInside {
			t.Errorf("PathOf(%q, %q, %q) = %q, which is no path of a file in the volume", template, key, folder, clean)
		}
	})
}
