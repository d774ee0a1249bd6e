// Package page reads a page of the project as a reader does who types its commands.
//
// It does not know what the commands do, nor where they run.
package page

import "strings"

// Sections returns the headings of the second level, in the order of the page.
func Sections(markdown string) []string {
	var headings []string
	for line := range strings.Lines(markdown) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			headings = append(headings, strings.TrimSpace(heading))
		}
	}
	return headings
}

// Section returns the text below a heading of the second level.
func Section(markdown, heading string) string {
	_, text, _ := strings.Cut(markdown, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// Commands returns the blocks of shell code.
func Commands(markdown string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(markdown, "```sh\n")
		if !found {
			return blocks
		}
		code, after, _ := strings.Cut(rest, "```")
		blocks, markdown = append(blocks, code), after
	}
}

// Shown returns the lines of the blocks that show what is printed.
func Shown(markdown string) []string {
	var lines []string
	parts := strings.Split(markdown, "\n```")
	for i := 1; i < len(parts); i += 2 { // Between two of them is a block.
		if block, isOutput := strings.CutPrefix(parts[i], "\n"); isOutput { // Shell code names its language here.
			lines = append(lines, strings.Split(block, "\n")...)
		}
	}
	return lines
}
