package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// update has the golden files written again: go -C test/bench test ./report -update.
var update = flag.Bool("update", false, "write the golden files again")

// sample is a result that has one of everything.
func sample() report.Result {
	return report.Result{
		Begun: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 90 * time.Second, Quick: true,
		Facts: []report.Fact{{Name: "processors", Value: "2"}},
		Summary: report.Summary{Picture: "update-1.svg", Numbers: []report.Number{
			{
				What: "from an edit to the file, p50 and p99", Ours: cells("Fan-out 1", "liveconfig <1>", "p50", "p99"),
				Other: "a bare watch", Theirs: cells("Fan-out 1", "bare watch", "p50", "p99"),
			},
			{What: "memory of ten volumes", Ours: cells("Driver", "10", "RSS")},
			{What: "memory of more", Ours: cells("Driver", "110", "RSS")},
		}},
		Targets: []report.Target{
			{Key: "holds", What: "an upper bound that holds", Value: 1.25, Bound: 1.3, Remark: "Nobody needs to know."},
			{Key: "explained", What: "one that does not, explained", Value: 17, Bound: 16, Unit: "MiB", Remark: "The program alone takes 16."},
			{What: "a lower bound that holds", Value: 1000, Bound: 1000, AtLeast: true},
			{What: "one that does not", Value: 999, Bound: 1000, AtLeast: true},
		},
		Sections: []report.Section{
			{
				Key: "update", Title: "Update latency", Text: "From the request to the file.",
				Groups: []report.Group{{
					Key: "1", Title: "Fan-out 1", Floor: "floor",
					Series: []report.Series{
						{Key: "floor", Name: "bare watch", Unit: report.Nanoseconds, Runs: [][]int64{{2_000_000, 3_000_000}, {4_000_000}}},
						{Key: "ours", Name: "liveconfig <1>", Unit: report.Nanoseconds, Runs: [][]int64{{4_000_000, 5_000_000}, {6_000_000}}},
					},
				}},
				Notes: []string{"Nothing is comparable."},
			},
			{
				Key: "memory", Title: "Memory", Text: "By number.",
				Tables: []report.Table{{Title: "Driver", Header: []string{"volumes", "RSS"}, Rows: [][]string{{"10", "20 MiB"}}}},
				Files:  []report.File{{Name: "heap.txt", Title: "What is in the heap", Text: "nothing\n"}},
				Charts: []report.Chart{{Key: "rss", Title: "RSS", X: "volumes", Y: "MiB", Curves: []report.Curve{
					{Name: "driver", Points: []report.Point{{X: 10, Y: 20}, {X: 110, Y: 22}}},
				}}},
			},
		},
	}
}

func cells(table, row string, columns ...string) (all []report.Cell) {
	for _, column := range columns {
		all = append(all, report.Cell{Table: table, Row: row, Column: column})
	}
	return all
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	page := sample().Markdown("plots")
	wantGolden(t, "results.md", []byte(page))
	if table := sample().TargetsTable(); table == "" || !strings.Contains(page, table) {
		t.Errorf("the table of targets is not that of the page:\n%s", table)
	}
}

func wantGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()
	plots := sample().Plots()
	for name, want := range map[string][]string{
		// The axis goes from 1 to 10 ms, logarithmically, over 540 pixels; half of three samples is above 33 percent.
		"update-1.svg":   {">bare watch<", ">liveconfig &lt;1&gt;<", ">1 ms<", ">10 ms<", "232.6,370.0 232.6,260.0 327.6,150.0 395.1,40.0"},
		"memory-rss.svg": {">driver<", ">volumes<", ">MiB<", "119.1,84.3 610.0,55.7"},
	} {
		for _, text := range want {
			if !bytes.Contains(plots[name], []byte(text)) {
				t.Errorf("%s has no %q:\n%s", name, text, plots[name])
			}
		}
		wantXML(t, name, plots[name])
	}
}

func wantXML(t *testing.T, name string, text []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestWrite looks that all of a result is in the folder, and nothing of an earlier one.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := sample()
	before.Sections[0].Key = "before"
	before.Sections[1].Files[0].Name = "before.txt"
	for _, r := range []report.Result{before, sample()} {
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"plots", "data", "memory"} {
		if left, err := filepath.Glob(filepath.Join(dir, folder, "before*")); err != nil || len(left) > 0 {
			t.Errorf("left of the result before: %q, %v", left, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(page), "](") {
		if link, _, _ := strings.Cut(part, ")"); strings.HasSuffix(link, ".svg") || strings.HasSuffix(link, ".txt") {
			if _, err := os.Stat(filepath.Join(dir, link)); err != nil {
				t.Errorf("the page shows %s: %v", link, err)
			}
		}
	}
	wantData(t, dir)
}

func wantData(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "data", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got report.Result
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample().Targets, got.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	samples, err := os.ReadFile(filepath.Join(dir, "data", "samples.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"section":"update","group":"Fan-out 1","series":"floor","unit":"ns","runs":[[2000000,3000000],[4000000]]}`
	if first, _, _ := strings.Cut(string(samples), "\n"); first != want {
		t.Errorf("the first line of samples is %s, want %s", first, want)
	}
}

func TestRemark(t *testing.T) {
	t.Parallel()
	r := report.Result{Targets: []report.Target{{Key: "a", What: "the first"}, {Key: "b", What: "the second", Remark: "of old"}}}
	if diff := cmp.Diff([]string{"c", "d"}, r.Remark(map[string]string{"d": "4", "a": "1", "c": "3"})); diff != "" {
		t.Errorf("remarks about no target (-want +got):\n%s", diff)
	}
	want := []report.Target{{Key: "a", What: "the first", Remark: "1"}, {Key: "b", What: "the second"}}
	if diff := cmp.Diff(want, r.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// TestNoNumber looks that the result of a long run is not lost for a figure.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	for _, value := range []float64{math.NaN(), math.Inf(1)} {
		target := report.Target{Key: "a", What: "b", Value: value, Bound: 1}
		if target.Reached() {
			t.Errorf("%v is reached", value)
		}
		got, err := json.Marshal(target)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"key":"a","what":"b","bound":1,"value":null}`
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("target of %v (-want +got):\n%s", value, diff)
		}
	}
}
