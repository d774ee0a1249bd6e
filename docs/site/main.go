// Command site copies the pages of this repository to a folder from which mkdocs builds the site of `make site`.
//
// Pages stay where they are, so that their links lead where they lead on GitHub. A file or folder that a page links to,
// and that is no page, becomes one, with the text of the files. The program does not know how the site looks.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// first are the files with which the site begins. Links lead to the others.
func first() []string {
	return []string{
		"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "docs/*.md", "docs/design/*.md",
		"docs/security/*.md", "docs/pictures/*.svg", "deploy/README.md", "examples/README.md",
		"docs/site/site.css", "deploy/chart/icon.svg",
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY FOLDER")
		os.Exit(2)
	}
	if err := newCopier(os.Args[1], os.Args[2]).copyAll(first()); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// copier copies pages from a repository to a folder, and remembers which ones it has copied or has still to copy.
type copier struct {
	repo, out string
	seen      map[string]bool
	queue     []string
}

func newCopier(repo, out string) *copier {
	return &copier{repo: repo, out: out, seen: map[string]bool{}}
}

// copyAll copies all files of the patterns, and then the files that they link to.
func (c *copier) copyAll(patterns []string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(c.repo, pattern))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%s: no such page (%w)", pattern, errors.Join(err, os.ErrNotExist))
		}
		for _, path := range found {
			c.add(strings.TrimPrefix(path, c.repo+"/"))
		}
	}
	for len(c.queue) > 0 {
		path := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.copy(path); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) add(path string) {
	if !c.seen[path] {
		c.seen[path] = true
		c.queue = append(c.queue, path)
	}
}

// copy writes the page or picture of a path. A path that is neither has a page with the text of its files.
func (c *copier) copy(path string) error {
	info, err := os.Stat(filepath.Join(c.repo, path))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.writeListing(path)
	}
	text, err := os.ReadFile(filepath.Join(c.repo, path))
	if err != nil {
		return err
	}
	switch filepath.Ext(path) {
	case ".md":
		page, err := c.follow(path, string(text))
		return errors.Join(err, c.write(path, page))
	case ".svg", ".css":
		return c.write(path, string(text))
	}
	return c.write(path+".md", "# "+path+"\n\n"+block(path, string(text)))
}

// writeListing writes a page with the text of each file of a folder.
func (c *copier) writeListing(folder string) error {
	entries, err := os.ReadDir(filepath.Join(c.repo, folder))
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", folder)
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.repo, folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s", entry.Name(), block(entry.Name(), string(text)))
	}
	return c.write(filepath.Join(folder, "index.md"), b.String())
}

func (c *copier) write(path, text string) error {
	to := filepath.Join(c.out, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o600) //nolint:forbidigo // It is no file of a volume.
}

// follow adds everything that a page links to, and returns the page with links to pages only.
func (c *copier) follow(page, text string) (string, error) {
	link := regexp.MustCompile(`\]\(([^)\s#]+)`)
	var missing error
	prose := func(line string) string {
		return link.ReplaceAllStringFunc(line, func(found string) string {
			target := strings.TrimSuffix(strings.TrimPrefix(found, "]("), "/")
			if strings.Contains(target, "://") {
				return found
			}
			to, err := c.pageOf(filepath.Join(filepath.Dir(page), target))
			missing = errors.Join(missing, err)
			relative, err := filepath.Rel(filepath.Dir(page), to)
			missing = errors.Join(missing, err)
			return "](" + relative
		})
	}
	if text = outsideCode(text, prose); missing != nil {
		return "", fmt.Errorf("%s: %w", page, missing)
	}
	return text, nil
}

// pageOf adds a path, and returns the page of the site that shows it.
func (c *copier) pageOf(path string) (string, error) {
	info, err := os.Stat(filepath.Join(c.repo, path))
	if err != nil {
		return path, err
	}
	if readme := filepath.Join(path, "README.md"); info.IsDir() && exists(filepath.Join(c.repo, readme)) {
		path = readme
	}
	c.add(path)
	switch ext := filepath.Ext(path); {
	case ext == ".md", ext == ".svg":
		return path, nil
	case info.IsDir():
		return filepath.Join(path, "index.md"), nil
	}
	return path + ".md", nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
