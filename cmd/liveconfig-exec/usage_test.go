package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/docs"
)

// TestPageOfFlags compares what --help prints about the flags with docs/flags.md, and with the flags that there are.
func TestPageOfFlags(t *testing.T) {
	var rows [][]string
	described := map[string]bool{}
	for line := range strings.Lines(usage) {
		if found := regexp.MustCompile(`^  (--([a-z-]+)\S*(?: \S+)?)  +(\S.*)$`).FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			rows = append(rows, []string{"`" + found[1] + "`", found[3]})
			described[found[2]] = true
		} else if more := strings.TrimPrefix(line, strings.Repeat(" ", 32)); more != line && len(rows) > 0 {
			rows[len(rows)-1][1] += " " + more
		}
	}
	for name := range flags() {
		if !described[name] {
			t.Errorf("--help does not describe --%s", name)
		}
	}
	docs.Table{Page: "flags.md", Name: "liveconfig-exec", Columns: []string{"flag", "meaning"}, Rows: rows}.Compare(t)
}
