package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// TestRemarks looks that those of the checkout can be read.
func TestRemarks(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"--repo=../.."})
	if err != nil {
		t.Fatal(err)
	}
	if err := remark(report.Result{}, o, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

// TestPageOfResults: the page begins with numbers of its own tables, and not with those that somebody has typed.
func TestPageOfResults(t *testing.T) {
	t.Parallel()
	const page, targets = "RESULTS.md", "\n## Targets\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), targets)
	title, got, _ := strings.Cut(before, "\n## In short\n")
	want := summary().Markdown(targets+rest, "plots")
	if os.Getenv("LIVECONFIG_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(title+want+targets+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, "\n## In short\n"+got); diff != "" {
		t.Errorf("the beginning of %s (-want +got); write it again with LIVECONFIG_UPDATE=1:\n%s", page, diff)
	}
	// One part of the benchmark is younger than the page: that of objects by label.
	if missing := strings.Count(got, "not measured"); missing > 1 {
		t.Errorf("%d numbers of the beginning are in none of the tables:\n%s", missing, got)
	}
}
