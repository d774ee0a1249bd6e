// Package validation checks the content of a ConfigMap or Secret by the rules of its release
// annotation. No message has a value of a Secret. It does not know pods, steps, or the API server.
//
// A schema or an expression can ask for more time and memory than anybody has. [Check] bounds only
// what an expression costs; package isolated runs it where the rest is bounded too.
package validation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// Content is what is checked.
type Content struct {
	Data map[string][]byte
	// IsSecret leaves everything out of messages that could come from a value.
	IsSecret bool
	// Now is the time by which certificates expire.
	Now time.Time
}

// Problem is a rule that does not hold.
type Problem struct {
	// Rule is its place in the annotation, from 0.
	Rule int
	// Key names the value that breaks the rule.
	Key string
	// Line of the value, from 1; 0 if it is not known.
	Line int
	Text string
}

// String returns the problem as messages show it: «validate[0]: key app.yaml, line 3: …».
func (p Problem) String() string {
	at := fmt.Sprintf("validate[%d]: key %s", p.Rule, p.Key)
	if p.Line > 0 {
		at += fmt.Sprintf(", line %d", p.Line)
	}
	return at + ": " + p.Text
}

// Check returns every problem, in the order of the rules. A rule that cannot be checked, because
// its schema or its expression is wrong, does not hold.
func Check(rules []settings.Rule, c Content) []Problem {
	var problems []Problem
	for i, rule := range rules {
		k := &checker{rule: rule, content: c}
		k.check()
		slices.SortFunc(k.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
		})
		for _, p := range k.problems[:min(len(k.problems), mostProblems)] {
			p.Rule = i
			problems = append(problems, p)
		}
	}
	return problems
}

// checker checks one rule.
type checker struct {
	rule     settings.Rule
	content  Content
	problems []Problem
}

// check checks the rule. A library that fails on what somebody wrote has not found it to be right.
func (k *checker) check() {
	defer func() {
		if recover() != nil {
			k.problem(cmp.Or(k.rule.Key, "of the pair"), 0, "the rule cannot be checked with this value and this schema")
		}
	}()
	if k.rule.Pair != nil {
		k.pair()
	} else {
		k.value()
	}
}

// mostProblems is how many problems of one rule are of use to a reader.
const mostProblems = 5

// mostFound is how many problems are looked for.
const mostFound = 1000

// longestProblem is how long the text of a problem may be: an Event has 1 KiB for all.
const longestProblem = 400

func (k *checker) problem(key string, line int, format string, args ...any) {
	if len(k.problems) >= mostFound {
		return
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > longestProblem {
		text = strings.ToValidUTF8(text[:longestProblem], "") + "…"
	}
	k.problems = append(k.problems, Problem{Key: key, Line: line, Text: text})
}

// detail returns the text of an error, if it may be shown.
func (k *checker) detail(err error) string {
	if k.content.IsSecret {
		return ""
	}
	return ": " + err.Error()
}

// get returns a value, or notes that it is missing.
func (k *checker) get(key string) (value []byte, found bool) {
	value, found = k.content.Data[key]
	if !found {
		k.problem(key, 0, "the key is missing")
	}
	return value, found
}

// value checks a value with a format.
func (k *checker) value() {
	text, found := k.get(k.rule.Key)
	if !found {
		return
	}
	documents, err := parse(k.rule.Format, text)
	if err != nil {
		var e *syntaxError
		_ = errors.As(err, &e) // parse returns no other one.
		k.problem(k.rule.Key, e.line, "is not %s%s", k.rule.Format, k.detail(e.err))
		return
	}
	if k.rule.SchemaKey != "" {
		k.schema(documents)
	}
	if k.rule.CEL != "" {
		k.expression(documents)
	}
}
