package prooflist

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Read returns the rows of every table in a file.
func (l List) Read(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return l.parseTable(string(text))
}

// parseTable returns the rows of every table in a text. A row has three cells; those of the head and the line below it
// are no rows. Nothing else may begin with a bar.
func (l List) parseTable(text string) ([]Row, error) {
	var rows []Row
	at := 0
	for line := range strings.Lines(text) {
		at++
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| number |") || strings.Trim(line, "|-: ") == "" {
			continue
		}
		r, err := l.parseRow(line)
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

func (l List) parseRow(line string) (Row, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 3 {
		return Row{}, fmt.Errorf("%d cells, want 3: number, what holds, tests", len(cells))
	}
	n, err := l.parseNumber(strings.TrimSpace(cells[0]))
	if err != nil {
		return Row{}, err
	}
	tests, err := parseReferences(strings.TrimSpace(cells[2]))
	return Row{Number: n, Text: strings.TrimSpace(cells[1]), Tests: tests}, err
}

// parseNumber reads the first cell of a row: 7, or trap 7.
func (l List) parseNumber(cell string) (Number, error) {
	word, forms, digits := l.Kinds[0].Word, "7", cell
	for _, kind := range l.Kinds[1:] {
		forms += ", or " + kind.Word + " 7"
		if rest, ok := strings.CutPrefix(cell, kind.Word+" "); ok {
			word, digits = kind.Word, rest
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits {
		return Number{}, fmt.Errorf("number %q: want %s", cell, forms)
	}
	return Number{word, n}, nil
}

// parseReferences reads the last cell of a row: references in backquotes with commas between them, or nothing.
func parseReferences(cell string) ([]Reference, error) {
	if cell == "" {
		return nil, nil
	}
	form := regexp.MustCompile("^`((?:pkg|cmd|test)/[a-z0-9/-]+)\\.((?:Test|Fuzz)[A-Za-z0-9]*)(?:/([^`]+))?`$")
	var all []Reference
	for part := range strings.SplitSeq(strings.ReplaceAll(cell, "`, `", "`\n`"), "\n") {
		match := form.FindStringSubmatch(part)
		if match == nil {
			return nil, fmt.Errorf("test %s: want `pkg/files/projection.TestBuild`, or with /a subtest", part)
		}
		all = append(all, Reference{Folder: match[1], Function: match[2], Subtest: match[3]})
	}
	return all, nil
}

// mentions returns the promises that a text names, in order: «rule 7», «rules 3, 5 and 7», «rules 39 to 44». A line
// break, also one within a comment, is a blank. A word alone, without a number after it, names nothing, and the singular
// takes one number; a number that there is not and a range that does not go up are errors.
func (l List) mentions(text string) ([]Number, error) {
	text = regexp.MustCompile(`\n\s*(?://)?\s*`).ReplaceAllString(text, " ")
	var words []string
	for _, kind := range l.Kinds {
		words = append(words, "["+strings.ToUpper(kind.Word[:1])+kind.Word[:1]+"]"+kind.Word[1:])
	}
	form := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)(?: (\d+)|s (\d+(?:(?:, | and | to )\d+)*))`)
	var named []Number
	for _, match := range form.FindAllStringSubmatch(text, -1) {
		numbers, err := l.expand(match[2] + match[3]) // One of them is empty.
		if err != nil {
			return nil, fmt.Errorf("%q: %w", match[0], err)
		}
		for _, n := range numbers {
			n := Number{strings.ToLower(match[1]), n}
			if !l.exists(n) {
				return nil, fmt.Errorf("%q: there is no %s", match[0], n)
			}
			named = append(named, n)
		}
	}
	return named, nil
}

// expand returns the numbers of a list such as «3, 5 to 7 and 9».
func (l List) expand(list string) (numbers []int, err error) {
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
		case to > l.last():
			return nil, fmt.Errorf("there is no number %d", to)
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
