package rules

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// number is that of a rule or a trap.
type number struct {
	isTrap bool
	n      int
}

func (n number) String() string {
	if n.isTrap {
		return fmt.Sprintf("trap %d", n.n)
	}
	return fmt.Sprintf("rule %d", n.n)
}

// exists tells whether there is such a number.
func (n number) exists() bool {
	if n.isTrap {
		return n.n >= 1 && n.n <= lastTrap
	}
	return n.n >= 1 && n.n <= lastRule
}

// everyNumber returns all numbers that there are.
func everyNumber() (all []number) {
	for n := 1; n <= lastRule; n++ {
		all = append(all, number{n: n})
	}
	for n := 1; n <= lastTrap; n++ {
		all = append(all, number{isTrap: true, n: n})
	}
	return all
}

// row is one line of the table.
type row struct {
	number number
	text   string
	tests  []reference
}

// reference names a test function: pkg/projection.TestBuild, perhaps with one of its subtests.
type reference struct{ folder, function, subtest string }

func (r reference) String() string {
	if r.subtest != "" {
		return r.folder + "." + r.function + "/" + r.subtest
	}
	return r.folder + "." + r.function
}

// readTable returns the rows of every table in a file.
func readTable(path string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseTable(string(text))
}

// parseTable returns the rows of every table in a text. A row has three cells; those of the head and the line below it
// are no rows. Nothing else may begin with a bar.
func parseTable(text string) ([]row, error) {
	var rows []row
	at := 0
	for line := range strings.Lines(text) {
		at++
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| number |") || strings.Trim(line, "|-: ") == "" {
			continue
		}
		r, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.New("there is no table")
	}
	return rows, nil
}

func parseRow(line string) (row, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 3 {
		return row{}, fmt.Errorf("%d cells, want 3: number, what holds, tests", len(cells))
	}
	n, err := parseNumber(strings.TrimSpace(cells[0]))
	if err != nil {
		return row{}, err
	}
	tests, err := parseReferences(strings.TrimSpace(cells[2]))
	return row{number: n, text: strings.TrimSpace(cells[1]), tests: tests}, err
}

// parseNumber reads the first cell of a row: 7, or trap 7.
func parseNumber(cell string) (number, error) {
	digits, isTrap := strings.CutPrefix(cell, "trap ")
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits {
		return number{}, fmt.Errorf("number %q: want 7, or trap 7", cell)
	}
	return number{isTrap: isTrap, n: n}, nil
}

// parseReferences reads the last cell of a row: references in backquotes with commas between them, or nothing.
func parseReferences(cell string) ([]reference, error) {
	if cell == "" {
		return nil, nil
	}
	form := regexp.MustCompile("^`((?:pkg|cmd|test)/[a-z0-9/-]+)\\.((?:Test|Fuzz)[A-Za-z0-9]*)(?:/([^`]+))?`$")
	var all []reference
	for part := range strings.SplitSeq(strings.ReplaceAll(cell, "`, `", "`\n`"), "\n") {
		match := form.FindStringSubmatch(part)
		if match == nil {
			return nil, fmt.Errorf("test %s: want `pkg/projection.TestBuild`, or with /a subtest", part)
		}
		all = append(all, reference{folder: match[1], function: match[2], subtest: match[3]})
	}
	return all, nil
}

// mentions returns the rules and traps that a text names, in order: «rule 7», «rules 3, 5 and 7», «rules 39 to 44»,
// «trap 2», «traps 1 and 4». A line break, also one within a comment, is a blank. A word alone, without a number after
// it, names nothing, and the singular takes one number; a number that there is not and a range that does not go up are
// errors.
func mentions(text string) ([]number, error) {
	text = regexp.MustCompile(`\n\s*(?://)?\s*`).ReplaceAllString(text, " ")
	form := regexp.MustCompile(`\b([Rr]ule|[Tt]rap)(?: (\d+)|s (\d+(?:(?:, | and | to )\d+)*))`)
	var named []number
	for _, match := range form.FindAllStringSubmatch(text, -1) {
		numbers, err := expand(match[2] + match[3]) // One of them is empty.
		if err != nil {
			return nil, fmt.Errorf("%q: %w", match[0], err)
		}
		for _, n := range numbers {
			n := number{isTrap: strings.EqualFold(match[1], "trap"), n: n}
			if !n.exists() {
				return nil, fmt.Errorf("%q: there is no %s", match[0], n)
			}
			named = append(named, n)
		}
	}
	return named, nil
}

// expand returns the numbers of a list such as «3, 5 to 7 and 9».
func expand(list string) (numbers []int, err error) {
	for part := range strings.SplitSeq(strings.ReplaceAll(list, " and ", ", "), ", ") {
		first, last, isRange := strings.Cut(part, " to ")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("%q is no number and no range", part)
		case isRange && from >= to:
			return nil, fmt.Errorf("the range %q does not go up", part)
		case to > lastRule:
			return nil, fmt.Errorf("there is no number %d", to)
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
