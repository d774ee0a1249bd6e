// Package plan says which of many ginkgo tests are run and how each of them ends, and finds out where that is not so.
//
// It does not know what the tests test.
package plan

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
	"sigs.k8s.io/yaml"
)

// Plan is a list of tests. The zero value covers none.
type Plan struct {
	// Covers are regular expressions. A test whose name one of them matches has to be in Tests.
	Covers []string `json:"covers"`
	Tests  []Test   `json:"tests"`
}

// Test is one test, and how it has to end.
type Test struct {
	// Name is the texts of the test and of what it is in, with blanks between them.
	Name string  `json:"name"`
	Ends Outcome `json:"ends"`
	// Says is a part of the reason that the test itself gives for being skipped.
	Says string `json:"says,omitempty"`
	// Because is our reason, for readers.
	Because string `json:"because,omitempty"`
}

// Outcome is how a test ends.
type Outcome string

const (
	// Passed tests are run, and pass.
	Passed Outcome = "passed"
	// Skipped tests are run, and find out themselves that they do not apply.
	Skipped Outcome = "skipped"
	// LeftOut tests are not run.
	LeftOut Outcome = "left out"
)

// Parse reads a plan from YAML. All its mistakes are in the error.
func Parse(data []byte) (Plan, error) {
	var p Plan
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		return Plan{}, err
	}
	var mistakes []error
	for _, expression := range p.Covers {
		if _, err := regexp.Compile(expression); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	seen := map[string]bool{}
	for _, test := range p.Tests {
		if seen[test.Name] {
			mistakes = append(mistakes, fmt.Errorf("test %q: is there twice", test.Name))
		}
		seen[test.Name] = true
		if err := test.validate(); err != nil {
			mistakes = append(mistakes, fmt.Errorf("test %q: %w", test.Name, err))
		}
	}
	return p, errors.Join(mistakes...)
}

// Only returns the plan of a run in which the other tests, which do not match or which match but, are left out; nil stands for
// all and for none.
func (p Plan) Only(match, but *regexp.Regexp) Plan {
	p.Tests = slices.Clone(p.Tests)
	for i := range p.Tests {
		t := &p.Tests[i]
		if match != nil && !match.MatchString(t.Name) || but != nil && but.MatchString(t.Name) {
			t.Ends, t.Says, t.Because = LeftOut, "", "it is not asked for"
		}
	}
	return p
}

func (t Test) validate() error {
	switch {
	case t.Name == "":
		return errors.New("has no name")
	case t.Ends != Passed && t.Ends != Skipped && t.Ends != LeftOut:
		return fmt.Errorf("ends %q, want %q, %q or %q", t.Ends, Passed, Skipped, LeftOut)
	case t.Ends != Passed && t.Because == "":
		return errors.New("is not run to its end, and no reason stands in because")
	case (t.Ends == Skipped) != (t.Says != ""):
		return errors.New("says is for a test that is skipped, and has to be there")
	}
	return nil
}

// Focus are the regular expressions by which ginkgo selects what the plan does not leave out. Ginkgo puts the name of the
// suite before that of the test.
func (p Plan) Focus() []string {
	var focus []string
	for _, test := range p.Tests {
		if test.Ends != LeftOut {
			focus = append(focus, " "+regexp.QuoteMeta(test.Name)+"$")
		}
	}
	return focus
}

// Compare is one sentence for each test that ended otherwise than planned or is missing, and for each that is not planned
// though it is covered or was run.
func (p Plan) Compare(reports types.SpecReports) []string {
	unplanned := map[string]types.SpecReport{}
	for _, report := range reports {
		if report.LeafNodeType.Is(types.NodeTypeIt) {
			unplanned[report.FullText()] = report
		}
	}
	var differences []string
	for _, test := range p.Tests {
		report, there := unplanned[test.Name]
		delete(unplanned, test.Name)
		if !there {
			differences = append(differences, fmt.Sprintf("%q is planned, and there is no such test", test.Name))
		} else if got := End(report); got != test.Ends || !strings.Contains(report.Failure.Message, test.Says) {
			said, _, _ := strings.Cut(report.Failure.Message, "\n")
			differences = append(differences, fmt.Sprintf("%q: got %s, %q; want %s, %q", test.Name, got, said, test.Ends, test.Says))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unplanned)) {
		if got := End(unplanned[name]); got != LeftOut || p.covers(name) {
			differences = append(differences, fmt.Sprintf("%q is not planned: got %s", name, got))
		}
	}
	return differences
}

// Relevant are the tests of the plan, all others that were run, and what is not a test but belongs to the run, if it has not
// simply passed.
func (p Plan) Relevant(reports types.SpecReports) types.SpecReports {
	return slices.DeleteFunc(slices.Clone(reports), func(report types.SpecReport) bool {
		if !report.LeafNodeType.Is(types.NodeTypeIt) {
			return report.State.Is(types.SpecStatePassed)
		}
		planned := slices.ContainsFunc(p.Tests, func(test Test) bool { return test.Name == report.FullText() })
		return End(report) == LeftOut && !planned
	})
}

func (p Plan) covers(name string) bool {
	return slices.ContainsFunc(p.Covers, func(expression string) bool {
		return regexp.MustCompile(expression).MatchString(name)
	})
}

// End is how a test ended. Ginkgo calls what a filter left out skipped too, but gives no reason for it.
func End(report types.SpecReport) Outcome {
	switch {
	case report.State.Is(types.SpecStatePassed):
		return Passed
	case report.State.Is(types.SpecStateSkipped) && report.Failure.Message == "":
		return LeftOut
	default:
		return Outcome(report.State.String())
	}
}
