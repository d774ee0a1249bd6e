package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

func TestPartsAreTheFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string // Documents with the lines on which they begin.
	}{
		"one document":                      {"a: 1\n", []string{"1 a: 1\n"}},
		"nothing":                           {"", nil},
		"separators at both ends":           {"---\na: 1\n---\n", []string{"2 a: 1\n"}},
		"comments and blanks beside dashes": {"a: 1\n--- # next\nb: 2\n---  \nc: 3", []string{"1 a: 1\n", "3 b: 2\n", "5 c: 3"}},
		"carriage returns":                  {"a: 1\r\n---\r\nb: 2\r\n", []string{"1 a: 1\r\n", "3 b: 2\r\n"}},
		"dashes that separate nothing":      {"a: |\n  ---\nb: ---x\n----\n", []string{"1 a: |\n  ---\nb: ---x\n----\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			var whole strings.Builder
			for _, part := range (manifest.File{Text: test.text}).Parts() {
				whole.WriteString(part.Text)
				if !part.IsSeparator {
					got = append(got, fmt.Sprintf("%d %s", part.Line, part.Text))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if whole.String() != test.text {
				t.Errorf("parts are %q, want %q", whole.String(), test.text)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.json", "c.txt", "deep/d.yml", "none/e.txt"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		in   manifest.Input
		want []string
		err  string
	}{
		"files, whatever their names":  {manifest.Input{Names: []string{"c.txt", "a.yaml"}}, []string{"c.txt", "a.yaml"}, ""},
		"a directory":                  {manifest.Input{Names: []string{"."}}, []string{"a.yaml", "b.json"}, ""},
		"a directory and what is deep": {manifest.Input{Names: []string{"."}, Recursive: true}, []string{"a.yaml", "b.json", "deep/d.yml"}, ""},
		"a directory without any":      {manifest.Input{Names: []string{"none"}}, nil, "has no files that end with"},
		"what is missing":              {manifest.Input{Names: []string{"gone", "a.yaml"}}, []string{"a.yaml"}, "no such file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := test.in
			in.Names = nil
			for _, name := range test.in.Names {
				in.Names = append(in.Names, filepath.Join(dir, name))
			}
			files, err := manifest.Read(in)
			var got []string
			for _, file := range files {
				got = append(got, file.Text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("Read = %v, want %q", err, test.err)
			}
		})
	}
}

func TestParseNamesTheLine(t *testing.T) {
	t.Parallel()
	_, err := manifest.Parse(manifest.Part{Text: "a: 1\nb: [\n", Line: 10})
	var syntax *manifest.SyntaxError
	if !errors.As(err, &syntax) || syntax.Line < 11 || syntax.Line > 12 {
		t.Errorf("Parse = %v, want an error on line 11 or 12", err)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "spec", "spec.volumes[0].csi", "[3].a[0][1]"} {
		if got := manifest.ParsePath(text).String(); got != text {
			t.Errorf("ParsePath(%q) = %q", text, got)
		}
	}
	if got := manifest.ParsePath(`a[0]."x y".b`).String(); got != "a[0]" {
		t.Errorf("the path with a quoted name is read to %q, want a[0]", got)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		at   string
		want string
	}{
		"lines below a field":               {"a:\n  old:\n    x: 1\n\n    # in it\n    y: 2\n\n  # after\n  z: 3 # kept\n", "a", "a:\n  # in it\n  new:\n    v: \"1\"\n\n  # after\n  z: 3 # kept\n"},
		"the first field of an element":     {"- old: {x: 1}\n  z: 3\n", "[0]", "- new:\n    v: \"1\"\n  z: 3\n"},
		"the last line without an end":      {"a:\n  old: 1", "a", "a:\n  new:\n    v: \"1\"\n"},
		"a list at the field's depth":       {"a:\n  old:\n  - x\n  - y\n  z: 3\n", "a", "a:\n  new:\n    v: \"1\"\n  z: 3\n"},
		"an element in braces":              {"- {z: 3, old: {x: 1}} # why\n-   z:   4\n", "[0]", "- # why\n  z: 3\n  new:\n    v: \"1\"\n-   z:   4\n"},
		"braces over several lines":         {"- {z: 3,\n   old: 1}\n-   z:   4\n", "[0]", "- z: 3\n  new:\n    v: \"1\"\n-   z:   4\n"},
		"braces on a line of another field": {"a: {old: 1, z: 3} # why\nb:   [1]\n", "a", "a: {new: {v: \"1\"}, z: 3} # why\nb: [1]\n"},
		"an anchor that is used elsewhere":  {"a:\n  old: &o {x: 1}\nb: *o\n", "a", "a:\n  new:\n    v: \"1\"\nb:\n  x: 1\n"},
		"comments behind what goes":         {"a:\n  # above\n  old: # why\n    x: 1 # one\n    # two\n    y: '#' # three\n  # after\n  z: 3\n", "a", "a:\n  # above\n  # why\n  # one\n  # two\n  # three\n  new:\n    v: \"1\"\n  # after\n  z: 3\n"},
		"comments of a first field":         {"- old: # why\n    x: 1\n  z: 3\n", "[0]", "- # why\n  new:\n    v: \"1\"\n  z: 3\n"},
		"comments in braces":                {"- {z: 3, # three\n   old: {x: 1}, # one\n   y: 2}\n", "[0]", "- z: 3 # three\n  # one\n  new:\n    v: \"1\"\n  y: 2\n"},
		"lines of Windows":                  {"a:\r\n  old: 1 # why\r\n  z: 3\r\n", "a", "a:\r\n  # why\r\n  new:\r\n    v: \"1\"\r\n  z: 3\r\n"},
		"JSON":                              {"{\"a\": {\"old\": 1, \"z\": 3}}\n", "a", "{\n  \"a\": {\n    \"new\": {\n      \"v\": \"1\"\n    },\n    \"z\": 3\n  }\n}\n"},
		"a text that looks like fields":     {"a:\n  old:\n    x: |\n      old: 2\n\n      z: 4\n  z: 3\n", "a", "a:\n  new:\n    v: \"1\"\n  z: 3\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := manifest.Parse(manifest.Part{Text: test.text, Line: 1})
			if err != nil {
				t.Fatal(err)
			}
			got, dropped, err := document.Replace([]manifest.Replacement{
				{Object: manifest.ParsePath(test.at), From: "old", To: "new", Value: map[string]any{"v": "1"}},
			})
			if err != nil || len(dropped) > 0 {
				t.Fatalf("Replace dropped %q, %v", dropped, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Replace (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReplaceAddsAndRemoves: a field without the other side of a replacement comes or goes alone.
func TestReplaceAddsAndRemoves(t *testing.T) {
	t.Parallel()
	added, removed := manifest.Replacement{To: "new", Value: "x"}, manifest.Replacement{From: "old"}
	tests := map[string]struct {
		text         string
		at           string
		replacements []manifest.Replacement
		want         string
	}{
		"lines go":                         {"a:\n    z:   3\n    # above\n    old:\n      x: 1 # in it\n\n    y: 2\n", "a", []manifest.Replacement{removed}, "a:\n    z:   3\n    # above\n\n    y: 2\n"},
		"the first field of an element":    {"- old: 1\n  z: 3\n", "[0]", []manifest.Replacement{removed}, "- z: 3\n"},
		"a field in braces":                {"a: {old: 1, z: 3} # why\n", "a", []manifest.Replacement{removed}, "a: {z: 3} # why\n"},
		"a field is added":                 {"a:\n  z: 3 # why\n", "a", []manifest.Replacement{added}, "a:\n  z: 3 # why\n  new: x\n"},
		"one comes and one goes, in lines": {"a:\n    z:   3\n    old: 1\n", "a", []manifest.Replacement{{From: "z", To: "new", Value: "x"}, removed}, "a:\n    new: x\n"},
		"one comes and one goes in braces": {"a: {z: 3, old: 1} # why\n", "a", []manifest.Replacement{{From: "z", To: "new", Value: "x"}, removed}, "a: {new: x} # why\n"},
		"JSON":                             {`{"a": {"old": 1}}`, "a", []manifest.Replacement{removed, added}, "{\n  \"a\": {\n    \"new\": \"x\"\n  }\n}\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := manifest.Parse(manifest.Part{Text: test.text, Line: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range test.replacements {
				test.replacements[i].Object = manifest.ParsePath(test.at)
			}
			got, _, err := document.Replace(test.replacements)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("Replace = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestReplaceReturnsWhatItDrops: an anchor that is used elsewhere has the whole document written
// again, without its comments.
func TestReplaceReturnsWhatItDrops(t *testing.T) {
	t.Parallel()
	document, err := manifest.Parse(manifest.Part{Text: "a:\n  old: &o {x: 1} # why\nb: *o # the same\n", Line: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, dropped, err := document.Replace([]manifest.Replacement{{Object: manifest.ParsePath("a"), From: "old", To: "new", Value: 1}})
	if diff := cmp.Diff([]string{"# why", "# the same"}, dropped); diff != "" || err != nil {
		t.Errorf("Replace = %q, %v, dropped (-want +got):\n%s", text, err, diff)
	}
}
