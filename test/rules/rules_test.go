// Package rules holds test/RULES.md to the tests: each rule of it is there once, and each test that it names is there
// and names the rule in turn.
//
// It does not know what the rules say, nor whether a test proves one: that is for people to read.
package rules

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/prooflist"
)

// repo is the checkout as this package's tests see it.
const repo = "../.."

// list is what test/RULES.md is made of: the kubelet's rules, and traps in which several of them meet.
func list() prooflist.List {
	return prooflist.List{
		Kinds:  []prooflist.Kind{{Word: "rule", Last: 61}, {Word: "trap", Last: 15}},
		Excuse: "not ours",
	}
}

func table(t *testing.T) []prooflist.Row {
	t.Helper()
	rows, err := list().Read(filepath.Join(repo, "test", "RULES.md"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEveryRuleIsThereOnce reads the table alone.
func TestEveryRuleIsThereOnce(t *testing.T) {
	t.Parallel()
	for _, problem := range list().CheckTable(table(t)) {
		t.Error(problem)
	}
}

// TestTestsNameTheirRules looks up each test that the table names.
func TestTestsNameTheirRules(t *testing.T) {
	t.Parallel()
	for _, problem := range list().CheckTests(repo, table(t)) {
		t.Error(problem)
	}
}

// TestNoTestNamesAnUnknownRule reads every test of the repository, also those that the table does not name.
func TestNoTestNamesAnUnknownRule(t *testing.T) {
	t.Parallel()
	problems, files, err := list().CheckMentions(repo, "prooflist") // Whose tests name what there is not, on purpose.
	for _, problem := range problems {
		t.Error(problem)
	}
	if err != nil || files < 50 {
		t.Errorf("read %d files of tests, %v, want all there are", files, err)
	}
}
