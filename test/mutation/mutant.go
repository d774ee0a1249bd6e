package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// outcome is what the tests made of a change.
type outcome string

const (
	noticed  outcome = "noticed"
	survived outcome = "survived"
	invalid  outcome = "does not compile"
)

// mutant is one change of one operator.
type mutant struct {
	file         string // Relative to the root of the repository.
	line, column int    // From 1; the column counts bytes.
	kind         string // As gremlins names it.
	outcome      outcome
}

// replacements says what gremlins puts in the place of an operator, by the kind of the change.
func replacements(kind string) map[string]string {
	return map[string]map[string]string{
		"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
		"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
		"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", "<": ">=", ">": "<=", "<=": ">"},
		"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
		"INVERT_LOGICAL":        {"&&": "||", "||": "&&"},
		"INVERT_LOOPCTRL":       {"break": "continue", "continue": "break"},
		"INVERT_NEGATIVES":      {"-": "+"},
	}[kind]
}

// kinds are the changes that are asked of gremlins beside those that it makes without being asked.
func kinds() []string { return []string{"--invert-logical", "--invert-loopctrl"} }

// mutants asks gremlins for the changes that can be made in a package.
func (w *workspace) mutants(ctx context.Context, folder string) ([]*mutant, error) {
	list := filepath.Join(w.temporary, "mutants.json")
	arguments := append([]string{"unleash", "--dry-run", "--silent", "--output", list}, kinds()...)
	cmd := exec.CommandContext(ctx, w.gremlins, arguments...)
	cmd.Dir = filepath.Join(w.copy, folder)
	if printed, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, printed)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	return parseMutants(text, folder)
}

// parseMutants reads the list that gremlins writes about one package, and leaves out the folders below it. Whether gremlins
// takes a change for covered does not matter: it does not see that the cases of a switch are.
func parseMutants(text []byte, folder string) ([]*mutant, error) {
	var list struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type         string
				Line, Column int
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	var found []*mutant
	for _, file := range list.Files {
		if strings.Contains(file.Name, "/") {
			continue
		}
		for _, m := range file.Mutations {
			if replacements(m.Type) == nil {
				return nil, fmt.Errorf("gremlins has a kind that is not known here: %s", m.Type)
			}
			found = append(found, &mutant{file: filepath.Join(folder, file.Name), line: m.Line, column: m.Column, kind: m.Type})
		}
	}
	slices.SortFunc(found, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column), cmp.Compare(a.kind, b.kind))
	})
	return found, nil
}

// sample draws some of the mutants, in the order of the files. The same seed draws the same ones.
func sample(all []*mutant, most int, seed uint64) []*mutant {
	if len(all) <= most {
		return all
	}
	drawn := rand.New(rand.NewPCG(seed, seed)).Perm(len(all))[:most] //nolint:gosec // The same ones each time.
	slices.Sort(drawn)
	some := make([]*mutant, most)
	for i, at := range drawn {
		some[i] = all[at]
	}
	return some
}

// apply returns the source with the change in it.
func (m *mutant) apply(source []byte) ([]byte, error) {
	lines := bytes.SplitAfter(source, []byte("\n"))
	if m.line > len(lines) || m.column > len(lines[m.line-1]) {
		return nil, fmt.Errorf("%s has no %d:%d", m.file, m.line, m.column)
	}
	rest := string(lines[m.line-1][m.column-1:])
	longest := ""
	for operator := range replacements(m.kind) {
		if strings.HasPrefix(rest, operator) && len(operator) > len(longest) {
			longest = operator
		}
	}
	if longest == "" {
		return nil, fmt.Errorf("%s:%d:%d has no code that %s changes", m.file, m.line, m.column, m.kind)
	}
	at := m.column - 1
	for _, line := range lines[:m.line-1] {
		at += len(line)
	}
	return slices.Concat(source[:at], []byte(replacements(m.kind)[longest]), source[at+len(longest):]), nil
}
