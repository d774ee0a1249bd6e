package main

import (
	"bytes"
	"testing"

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
