package plan_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/liveconfig-csi/liveconfig/test/tools/kubernetes/storage-e2e/plan"
)

// planned has a test of each kind.
func planned() plan.Plan {
	return plan.Plan{
		Covers: []string{`\[ours\]`},
		Tests: []plan.Test{
			{Name: "[ours] runs", Ends: plan.Passed},
			{Name: "[ours] cannot", Ends: plan.Skipped, Says: "needs a disk", Because: "there is none"},
			{Name: "[ours] must not", Ends: plan.LeftOut, Because: "it writes"},
		},
	}
}

// asPlanned are the reports of a run that went as planned has it.
func asPlanned() types.SpecReports {
	return types.SpecReports{
		{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStatePassed},
		report("[ours] runs", types.SpecStatePassed, ""),
		report("[ours] cannot", types.SpecStateSkipped, "this test needs a disk"),
		report("[ours] must not", types.SpecStateSkipped, ""),
		report("[theirs] is not run", types.SpecStateSkipped, ""),
	}
}

func report(name string, state types.SpecState, message string) types.SpecReport {
	container, leaf, _ := strings.Cut(name, " ")
	return types.SpecReport{
		ContainerHierarchyTexts: []string{container}, LeafNodeText: leaf, LeafNodeType: types.NodeTypeIt,
		State: state, Failure: types.Failure{Message: message},
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	if got := planned().Compare(asPlanned()); len(got) > 0 {
		t.Errorf("differences of a run as planned: %q", got)
	}
	if got, want := planned().Compare(asPlanned()[:3]), []string{`"[ours] must not" is planned, and there is no such test`}; !cmp.Equal(got, want) {
		t.Errorf("differences of a run without a test: %q, want %q", got, want)
	}
	tests := map[string]struct {
		report types.SpecReport // It replaces that of the test of the same name.
		want   string
	}{
		"a failed test": {
			report("[ours] runs", types.SpecStateFailed, "pod did not start\nin two minutes"),
			`"[ours] runs": got failed, "pod did not start"; want passed, ""`,
		},
		"a test that skips itself now": {
			report("[ours] runs", types.SpecStateSkipped, "needs two nodes"), `"[ours] runs": got skipped, "needs two nodes"; want passed, ""`,
		},
		"a test that was filtered out": {
			report("[ours] runs", types.SpecStateSkipped, ""), `"[ours] runs": got left out, ""; want passed, ""`,
		},
		"a test that skips itself no longer": {
			report("[ours] cannot", types.SpecStatePassed, ""), `"[ours] cannot": got passed, ""; want skipped, "needs a disk"`,
		},
		"a test that skips itself for another reason": {
			report("[ours] cannot", types.SpecStateSkipped, "a BeforeSuite node failed"),
			`"[ours] cannot": got skipped, "a BeforeSuite node failed"; want skipped, "needs a disk"`,
		},
		"a test that was to be left out": {
			report("[ours] must not", types.SpecStatePassed, ""), `"[ours] must not": got passed, ""; want left out, ""`,
		},
		"a covered test that is not planned": {
			report("[ours] is new", types.SpecStateSkipped, ""), `"[ours] is new" is not planned: got left out`,
		},
		"a test that is not covered and was run": {
			report("[theirs] was run", types.SpecStatePassed, ""), `"[theirs] was run" is not planned: got passed`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := slices.DeleteFunc(asPlanned(), func(r types.SpecReport) bool { return r.FullText() == test.report.FullText() })
			if diff := cmp.Diff([]string{test.want}, planned().Compare(append(reports, test.report))); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want string
	}{
		"a field that there is not":            {`tests: [{nam: a}]`, `unknown field "nam"`},
		"an expression that is invalid":        {`covers: ["["]`, "missing closing ]"},
		"a test without a name":                {`tests: [{ends: passed}]`, "has no name"},
		"a test that is there twice":           {`tests: [{name: a, ends: passed}, {name: a, ends: passed}]`, `"a": is there twice`},
		"an unknown end":                       {`tests: [{name: a, ends: well}]`, `ends "well"`},
		"a skipped test without our reason":    {`tests: [{name: a, ends: skipped, says: b}]`, "no reason stands in because"},
		"a skipped test without its reason":    {`tests: [{name: a, ends: skipped, because: b}]`, "says is for"},
		"a test left out without our reason":   {`tests: [{name: a, ends: left out}]`, "no reason stands in because"},
		"a reason of a test that is not asked": {`tests: [{name: a, ends: passed, says: b}]`, "says is for"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plan.Parse([]byte(test.yaml))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: got %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestOnly: tests that are not asked for are left out, and a run without them is as planned.
func TestOnly(t *testing.T) {
	t.Parallel()
	p := planned().Only(regexp.MustCompile(`runs|must not`), regexp.MustCompile(`must not`))
	reports := asPlanned()
	reports[2] = report("[ours] cannot", types.SpecStateSkipped, "")
	if got := p.Compare(reports); len(got) > 0 {
		t.Errorf("differences of a run of one test: %q", got)
	}
	if got, want := p.Focus(), []string{` \[ours\] runs$`}; !slices.Equal(got, want) {
		t.Errorf("focus %q, want %q", got, want)
	}
	if got := planned().Only(nil, nil).Compare(asPlanned()); len(got) > 0 {
		t.Errorf("differences of a run of all tests: %q", got)
	}
}
