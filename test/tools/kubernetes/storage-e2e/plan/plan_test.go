package plan_test

import (
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
	tests := map[string]struct {
		change func(reports types.SpecReports) types.SpecReports
		want   []string
	}{
		"a run as planned has no differences": {
			change: func(reports types.SpecReports) types.SpecReports { return reports },
		},
		"a failed test is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[1] = report("[ours] runs", types.SpecStateFailed, "pod did not start\nin two minutes")
				return reports
			},
			want: []string{`"[ours] runs": got failed, "pod did not start"; want passed, ""`},
		},
		"a test that skips itself now is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[1] = report("[ours] runs", types.SpecStateSkipped, "needs two nodes")
				return reports
			},
			want: []string{`"[ours] runs": got skipped, "needs two nodes"; want passed, ""`},
		},
		"a test that was filtered out is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[1] = report("[ours] runs", types.SpecStateSkipped, "")
				return reports
			},
			want: []string{`"[ours] runs": got left out, ""; want passed, ""`},
		},
		"a test that skips itself no longer is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[2] = report("[ours] cannot", types.SpecStatePassed, "")
				return reports
			},
			want: []string{`"[ours] cannot": got passed, ""; want skipped, "needs a disk"`},
		},
		"a test that skips itself for another reason is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[2] = report("[ours] cannot", types.SpecStateSkipped, "a BeforeSuite node failed")
				return reports
			},
			want: []string{`"[ours] cannot": got skipped, "a BeforeSuite node failed"; want skipped, "needs a disk"`},
		},
		"a test that was to be left out is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				reports[3] = report("[ours] must not", types.SpecStatePassed, "")
				return reports
			},
			want: []string{`"[ours] must not": got passed, ""; want left out, ""`},
		},
		"a missing test is one": {
			change: func(reports types.SpecReports) types.SpecReports { return reports[:3] },
			want:   []string{`"[ours] must not" is planned, and there is no such test`},
		},
		"a covered test that is not planned is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				return append(reports, report("[ours] is new", types.SpecStateSkipped, ""))
			},
			want: []string{`"[ours] is new" is not planned: got left out`},
		},
		"a test that is not covered and was run is one": {
			change: func(reports types.SpecReports) types.SpecReports {
				return append(reports, report("[theirs] was run", types.SpecStatePassed, ""))
			},
			want: []string{`"[theirs] was run" is not planned: got passed`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := planned().Compare(test.change(asPlanned()))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRelevantIsWhatThePlanNamesAndWhatWasRun(t *testing.T) {
	t.Parallel()
	reports := append(asPlanned(),
		report("[theirs] was run", types.SpecStatePassed, ""),
		types.SpecReport{LeafNodeType: types.NodeTypeReportAfterSuite, LeafNodeText: "truth", State: types.SpecStateFailed})
	var got []string
	for _, report := range planned().Relevant(reports) {
		got = append(got, report.FullText())
	}
	want := []string{"[ours] runs", "[ours] cannot", "[ours] must not", "[theirs] was run", "truth"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("relevant (-want +got):\n%s", diff)
	}
}

func TestFocusNamesEachTestThatIsNotLeftOutAndNoLonger(t *testing.T) {
	t.Parallel()
	want := []string{` \[ours\] runs$`, ` \[ours\] cannot$`}
	if diff := cmp.Diff(want, planned().Focus()); diff != "" {
		t.Errorf("focus (-want +got):\n%s", diff)
	}
}

func TestParseReadsAPlan(t *testing.T) {
	t.Parallel()
	got, err := plan.Parse([]byte(`
covers: ['\[ours\]']
tests:
  - {name: "[ours] runs", ends: passed}
  - {name: "[ours] cannot", ends: skipped, says: needs a disk, because: there is none}
  - {name: "[ours] must not", ends: left out, because: it writes}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planned(), got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
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
