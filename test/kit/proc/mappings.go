package proc

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mapping is what a process has in memory of one file, or of none, with the same rights.
type Mapping struct {
	// Name is the file's with the rights, such as "app r-xp".
	Name string
	Memory
}

// MappingsOf returns what a process has in memory, the largest first.
func MappingsOf(pid int) ([]Mapping, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return nil, err
	}
	return parseMappings(string(text))
}

// parseMappings adds those of one name.
func parseMappings(text string) ([]Mapping, error) {
	byName := map[string]*Mapping{}
	var now *Mapping
	for l := range strings.Lines(text) {
		if name, ok := mappingName(l); ok {
			if byName[name] == nil {
				byName[name] = &Mapping{Name: name}
			}
			now = byName[name]
			continue
		}
		if now == nil {
			return nil, fmt.Errorf("the line %q is of no mapping", l)
		}
		key, value, _ := strings.Cut(l, ":")
		to := map[string]*int64{"Rss": &now.Resident, "Anonymous": &now.Anonymous}[key]
		if to == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return nil, err
		}
		*to += kilobytes << 10
	}
	all := make([]Mapping, 0, len(byName))
	for _, m := range byName {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Mapping) int {
		return cmp.Or(cmp.Compare(b.Resident, a.Resident), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// mappingName returns the name of a mapping, if the line is the first of one: addresses, rights, offset, device, inode, and the
// file if there is one.
func mappingName(line string) (string, bool) {
	words := strings.Fields(line)
	if len(words) < 5 || strings.HasSuffix(words[0], ":") {
		return "", false
	}
	file := "of no file"
	if len(words) > 5 {
		file = strings.Join(words[5:], " ") // Go says what memory of no file is for: "[anon: Go: heap]".
	}
	if strings.HasPrefix(file, "/") {
		file = filepath.Base(file)
	}
	return file + " " + words[1], true
}
