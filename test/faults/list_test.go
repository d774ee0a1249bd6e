package faults

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/prooflist"
)

// repo is the checkout as this package's tests see it.
const repo = "../.."

// list is what test/FAULTS.md is made of.
func list() prooflist.List {
	return prooflist.List{Kinds: []prooflist.Kind{{Word: "fault", Last: 44}}}
}

func table(t *testing.T) []prooflist.Row {
	t.Helper()
	rows, err := list().Read(filepath.Join(repo, "test", "FAULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEveryFaultIsThereOnce, with a test: it reads the table alone.
func TestEveryFaultIsThereOnce(t *testing.T) {
	t.Parallel()
	for _, problem := range list().CheckTable(table(t)) {
		t.Error(problem)
	}
}

// TestTestsNameTheirFaults looks up each test that the table names.
func TestTestsNameTheirFaults(t *testing.T) {
	t.Parallel()
	for _, problem := range list().CheckTests(repo, table(t)) {
		t.Error(problem)
	}
}

// TestNoTestNamesAnUnknownFault reads every test of the repository, also those that the table does not name.
func TestNoTestNamesAnUnknownFault(t *testing.T) {
	t.Parallel()
	problems, files, err := list().CheckMentions(repo, "prooflist") // Whose tests name what there is not, on purpose.
	for _, problem := range problems {
		t.Error(problem)
	}
	if err != nil || files < 50 {
		t.Errorf("read %d files of tests, %v, want all there are", files, err)
	}
}
