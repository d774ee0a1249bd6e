package main

import (
	"path/filepath"
	"regexp"
	"strings"
)

// outsideCode changes the lines of a page that are outside of blocks of code, and writes lists as mkdocs wants them: below
// an empty line, and with four spaces before the further lines of an item, where GitHub takes two or three.
func outsideCode(page string, change func(line string) string) string {
	item := regexp.MustCompile(`^\s*([-*]|[0-9]+\.) `)
	var b strings.Builder
	before, margin, code := "", "", false
	for line := range strings.Lines(page) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case code && fence:
			code = false
		case fence:
			code, margin = true, moreIndent(line)
		}
		if code || fence {
			b.WriteString(margin + line)
			before = line
			continue
		}
		begins := item.MatchString(line) && !item.MatchString(before) && !strings.HasPrefix(before, " ")
		if begins && strings.TrimSpace(before) != "" {
			b.WriteString("\n")
		}
		b.WriteString(moreIndent(line) + change(line))
		before = line
	}
	return b.String()
}

// moreIndent returns the spaces that a line of an item lacks.
func moreIndent(line string) string {
	spaces := len(line) - len(strings.TrimLeft(line, " "))
	return strings.Repeat(" ", spaces/2*4-min(spaces, spaces/2*4))
}

// block returns a text as a block of code, in the language of the file's name.
func block(path, text string) string {
	language := map[string]string{".yaml": "yaml", ".sh": "sh", ".json": "json"}[filepath.Ext(path)]
	return "````" + language + "\n" + strings.TrimSuffix(text, "\n") + "\n````\n"
}
