package rules

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readBy has, for each annotation and label of the project, the fuzz test of what reads it, with limits of time and memory, or why
// it needs none.
var readBy = map[string]string{
	"release":           "pkg/release/settings.FuzzParse",
	"exposure":          "pkg/release.FuzzMarks",
	"released-with":     "pkg/release.FuzzMarks",
	"release-history":   "pkg/release.FuzzMarks",
	"release-check":     "pkg/release.FuzzNotes",
	"former":            "pkg/release.FuzzNotes",
	"released-together": "pkg/release.FuzzNotes",

	"triggered-by":       "pkg/rollout.FuzzAnnotationsOfWorkloads",
	"config":             "pkg/rollout.FuzzAnnotationsOfWorkloads",
	"rollout":            "pkg/rollout.FuzzAnnotationsOfWorkloads",
	"undone":             "pkg/rollout.FuzzAnnotationsOfWorkloads",
	"copies-of":          "pkg/rollout.FuzzAnnotationsOfSources",
	"copied-labels":      "pkg/rollout.FuzzAnnotationsOfSources",
	"copied-annotations": "pkg/rollout.FuzzAnnotationsOfSources",
	"source":             "pkg/rollout.FuzzAnnotationsOfSources",
	"digest":             "pkg/rollout.FuzzAnnotationsOfSources",

	"after-undo":              "compared with two words",
	"while-failing":           "compared with two words",
	"volumes":                 "compared with a few words",
	"copy-of":                 "a label, compared as a whole",
	"stable-of":               "a label, compared as a whole",
	"former-of":               "a label, compared as a whole",
	"driver-not-ready":        "the key of a taint, compared as a whole",
	"left-in-tree":            "printed by the plugin",
	"note":                    "nothing reads it",
	"source-uid":              "nothing reads it",
	"source-resource-version": "nothing reads it",
}

// TestAnnotationsAreFuzzed: anybody may write annotations and labels, so a test throws anything at what reads them.
func TestAnnotationsAreFuzzed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, name := range names(t) {
		used[name] = true
		if readBy[name] == "" {
			t.Errorf("liveconfig.internal/%s is in no line of readBy: add the fuzz test of what reads it", name)
		}
	}
	for name, by := range readBy {
		if !used[name] {
			t.Errorf("nothing names liveconfig.internal/%s, remove it from readBy", name)
		}
		folder, function, isTest := strings.Cut(by, ".Fuzz")
		if isTest && !existsFuzz(t, folder, "Fuzz"+function) {
			t.Errorf("%s, which fuzzes liveconfig.internal/%s, does not exist", by, name)
		}
	}
}

// names returns the names of annotations and labels that the code has constants for.
func names(t *testing.T) (all []string) {
	t.Helper()
	constant := regexp.MustCompile(`\bDomain \+ "/([a-z-]+)"`)
	err := filepath.WalkDir(filepath.Join(repo, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range constant.FindAllStringSubmatch(contents(t, strings.TrimPrefix(path, repo+"/")), -1) {
			all = append(all, found[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// existsFuzz reports whether a folder of the repository has a fuzz test.
func existsFuzz(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repo, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(contents(t, strings.TrimPrefix(file, repo+"/")), "\nfunc "+function+"(f *testing.F)") {
			return true
		}
	}
	return false
}
