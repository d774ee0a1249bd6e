package pictures_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/docs/pictures"
)

func readPage(t *testing.T, path string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func all(t *testing.T) []pictures.Picture {
	t.Helper()
	drawn, err := pictures.All(readPage(t, "../performance.md"), readPage(t, "terminal.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return drawn
}

// TestPageOfPictures compares the files of this folder with what the code draws. With LIVECONFIG_UPDATE set it writes them.
func TestPageOfPictures(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for _, picture := range all(t) {
		drawn[picture.File] = true
		file, err := os.ReadFile(picture.File)
		if err == nil && bytes.Equal(file, picture.SVG) {
			continue
		}
		if os.Getenv("LIVECONFIG_UPDATE") == "" {
			t.Errorf("docs/pictures/%s is not what the code draws (%v): `make docs` writes it", picture.File, err)
			continue
		}
		if err := os.WriteFile(picture.File, picture.SVG, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !drawn[file] {
			t.Errorf("no code draws docs/pictures/%s", file)
		}
	}
}

// TestTextsStayInTheirPlaces: no text is wider than its box or the page, in a wide font.
func TestTextsStayInTheirPlaces(t *testing.T) {
	t.Parallel()
	for _, picture := range all(t) {
		for _, text := range picture.Escaped {
			t.Errorf("%s: the text %q leaves its place", picture.File, text)
		}
	}
}

// TestPicturesAreQuiet: a picture is XML with a title and a description, has colours for dark screens, and neither runs nor
// loads anything.
func TestPicturesAreQuiet(t *testing.T) {
	t.Parallel()
	for _, picture := range all(t) {
		seen := map[string]bool{}
		for decoder := xml.NewDecoder(bytes.NewReader(picture.SVG)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", picture.File, err)
			}
			element, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			seen[element.Name.Local] = true
			for _, attribute := range element.Attr {
				if attribute.Name.Local == "href" || strings.HasPrefix(attribute.Name.Local, "on") {
					t.Errorf("%s: <%s> has the attribute %s", picture.File, element.Name.Local, attribute.Name.Local)
				}
			}
		}
		if seen["script"] || seen["image"] || seen["foreignObject"] {
			t.Errorf("%s has a script or loads something", picture.File)
		}
		if !seen["title"] || !seen["desc"] || !bytes.Contains(picture.SVG, []byte("prefers-color-scheme: dark")) {
			t.Errorf("%s has no title, no description or no colours for dark screens", picture.File)
		}
		if bytes.Contains(picture.SVG, []byte("animation:")) && !bytes.Contains(picture.SVG, []byte("prefers-reduced-motion: reduce")) {
			t.Errorf("%s moves for people who do not want motion", picture.File)
		}
	}
}

// TestFiguresAreThoseOfThePage: another figure on the page is another picture, and a row that is missing is an error that
// names it.
func TestFiguresAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page := readPage(t, "../performance.md")
	for _, test := range []struct {
		picture int
		row     string
		other   []string // Figures that the picture takes.
	}{
		{3, "from an edit to the new bytes in one volume, object of 1 KiB", []string{"7.77 ms"}},
		{4, "memory for a pod, RSS, 30 pods on the node", []string{"7.77 MiB"}},
		{4, "from an edit to the request that the program gets, p50", []string{"7.77 ms", "7.77 s"}},
	} {
		row := "| " + test.row + " | "
		before, after, found := strings.Cut(page, row)
		if !found {
			t.Errorf("docs/performance.md has no row %s", row)
			continue
		}
		_, rest, _ := strings.Cut(after, " | ")
		for _, figure := range test.other {
			drawn, err := pictures.All(before+row+figure+" | "+rest, readPage(t, "terminal.txt"))
			if err != nil || !bytes.Contains(drawn[test.picture].SVG, []byte(">"+figure+"<")) {
				t.Errorf("%s: the picture does not have the figure of the page (%v)", test.row, err)
			}
		}
		for change, text := range map[string]string{"no row": before + rest, "no figure": before + row + "soon | " + rest} {
			if _, err := pictures.All(text, readPage(t, "terminal.txt")); err == nil {
				t.Errorf("%s: %s: no error", test.row, change)
			}
		}
	}
}
