// Package site builds the site of the pages and opens each page in Chromium, which has to be installed.
package site

import (
	_ "embed"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// Widths of screens in pixels.
const (
	phone   = 390
	desktop = 1280
)

//go:embed look.js
var look string

// view is a page as a browser shows it.
type view struct {
	Width   int      `json:"width"`
	Texts   int      `json:"texts"`
	Escaped []string `json:"escaped"`
	Links   []string `json:"links"`
	Anchors []string `json:"anchors"`
	Broken  []string `json:"broken"`
}

// built builds the site, and returns its folder.
func built(t *testing.T) string {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(repo, "docs/site/build.sh")).CombinedOutput(); err != nil {
		t.Fatalf("docs/site/build.sh: %v\n%s", err, out)
	}
	return filepath.Join(repo, "bin/site")
}

// addresses returns the paths of all pages below a folder, as their links have them.
func addresses(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if page, isPage := strings.CutSuffix(strings.TrimPrefix(path, folder), "index.html"); isPage {
			all = append(all, page)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSite builds the site, opens every page and searches.
func TestSite(t *testing.T) {
	t.Parallel()
	folder := built(t)
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		wrong, pages := inspect(t, folder)
		for _, one := range wrong {
			t.Error(one)
		}
		if pages < 60 {
			t.Errorf("the site has %d pages, want 60 or more", pages)
		}
	})
	t.Run("search", func(t *testing.T) {
		t.Parallel()
		if found := search(t, folder, "InPlace"); !slices.Contains(found, "/docs/attributes/") {
			t.Errorf("a search for InPlace finds %q, want docs/attributes among them", found)
		}
	})
}

// TestFaultsAreFound opens a page with one fault of each kind.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const page = `<body style="margin: 0"><script src="https://tracker.test/count.js"></script><article>
		<a href="/gone/">a</a> <a href="/#nowhere">b</a> <a href="/#here" id="here">c</a> <img src="/none.svg">
		<table style="table-layout: fixed; width: 100px"><tr><td>leaves_its_cell_on_the_right_hand_side</table>
		<div style="overflow-x: auto; width: 50px">this_text_scrolls_in_its_place_and_is_well</div>
		<div style="width: 700px">wide</div></article>`
	if err := os.WriteFile(filepath.Join(folder, "index.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, _ := inspect(t, folder)
	for _, want := range []string{
		"asks for https://tracker.test/count.js", "links to /gone/,", "links to /#nowhere,", "does not show /none.svg",
		"on a screen of 390 pixels: a text leaves its box: leaves_its_cell", "is 700 pixels wide on a screen of 390",
		"on a screen of 1280 pixels: a text leaves its box: leaves_its_cell",
	} {
		if !slices.ContainsFunc(wrong, func(one string) bool { return strings.Contains(one, want) }) {
			t.Errorf("%q is not found", want)
		}
	}
	if len(wrong) != 7 {
		t.Errorf("found %d faults, want 7:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
}

// inspect opens every page of a folder at both widths, and returns what is wrong and the number of pages. No page may be
// wider than the screen, and no text may leave its box; each link leads to a page and a place on it; nothing comes from
// another host.
func inspect(t *testing.T, folder string) (wrong []string, pages int) {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	b := startBrowser(t)
	views := map[string]view{}
	for _, page := range addresses(t, folder) {
		v, faults := open(t, b, server.URL+page)
		views[page] = v
		wrong = append(wrong, faults...)
	}
	for page, v := range views {
		for _, link := range v.Links {
			if fault := follow(strings.TrimPrefix(link, server.URL), folder, views); fault != "" {
				wrong = append(wrong, fmt.Sprintf("%s links to %s, %s", page, link, fault))
			}
		}
	}
	for _, address := range b.asked {
		if !strings.HasPrefix(address, server.URL) && !strings.HasPrefix(address, "data:") {
			wrong = append(wrong, "a page asks for "+address)
		}
	}
	for i, one := range wrong {
		wrong[i] = strings.ReplaceAll(one, server.URL, "")
	}
	return wrong, len(views)
}

// open looks at a page at both widths, and returns what is wrong with it.
func open(t *testing.T, b *browser, address string) (v view, wrong []string) {
	t.Helper()
	if err := b.visit(address); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{desktop, phone} {
		if err := b.resize(width); err != nil {
			t.Fatal(err)
		}
		v = view{}
		if err := b.eval(look, &v); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if v.Texts == 0 {
			wrong = append(wrong, address+" has no text")
		}
		if v.Width > width {
			wrong = append(wrong, fmt.Sprintf("%s is %d pixels wide on a screen of %d", address, v.Width, width))
		}
		for _, text := range v.Escaped {
			wrong = append(wrong, fmt.Sprintf("%s, on a screen of %d pixels: a text leaves its box: %s", address, width, text))
		}
	}
	for _, picture := range v.Broken {
		wrong = append(wrong, address+" does not show "+picture)
	}
	return v, wrong
}

// follow returns what is wrong with a link within the site.
func follow(link, folder string, views map[string]view) string {
	if strings.Contains(link, "://") {
		return ""
	}
	path, anchor, _ := strings.Cut(link, "#")
	anchor, err := url.PathUnescape(anchor)
	if err != nil {
		return err.Error()
	}
	to, isPage := views[path]
	if _, err := os.Stat(filepath.Join(folder, path)); err != nil {
		return "which is missing"
	}
	if isPage && anchor != "" && !slices.Contains(to.Anchors, anchor) {
		return "but the page has no such place"
	}
	return ""
}

// search returns the pages that a search for a word finds.
func search(t *testing.T, folder, word string) []string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	b := startBrowser(t)
	if err := b.visit(server.URL + "/?q=" + word); err != nil {
		t.Fatal(err)
	}
	var found []string
	if err := b.eval(results, &found); err != nil {
		t.Fatal(err)
	}
	for i, address := range found {
		found[i], _, _ = strings.Cut(strings.TrimPrefix(address, server.URL), "?")
	}
	return found
}

// results waits for what the search finds.
const results = `new Promise((done, failed) => {
	const find = () => [...document.querySelectorAll(".md-search-result__link")].map(a => a.href);
	const timer = setInterval(() => find().length && (clearInterval(timer), done(find())), 100);
	setTimeout(() => failed("the search finds nothing in 30 s"), 30000);
})`
