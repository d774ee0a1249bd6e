package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	uses   = regexp.MustCompile(`^\s*(?:- )?["']?uses["']?\s*:`)
	inFlow = regexp.MustCompile(`[{,]\s*["']?uses["']?\s*:`)
	pinned = regexp.MustCompile(`^\s*(?:- )?uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # v[0-9]+\.[0-9]+\.[0-9]+$`)
	ours   = regexp.MustCompile(`^\s*(?:- )?uses: \./[\w./-]+$`)
)

// TestActionsArePinned: a workflow names each action by the hash of a commit, because its owner, or a thief of the owner's
// rights, can move a tag to another code. The comment names the version of the hash, and is one for all uses of an action.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	var files []string // Actions of this repository are one level deeper.
	for _, pattern := range []string{"*/*.y*ml", "*/*/*.y*ml"} {
		matching, err := filepath.Glob(filepath.Join(repo, ".github", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matching...)
	}
	found, first := 0, map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if problem := notPinned(line); problem != "" {
				t.Errorf("%s:%d: %s: %s", path, i+1, problem, strings.TrimSpace(line))
			}
			if action := pinned.FindStringSubmatch(line); action != nil {
				found++
				_, pin, _ := strings.Cut(line, "@")
				if other, is := first[action[1]]; is && other != pin {
					t.Errorf("%s:%d: %s is %s here and %s elsewhere", path, i+1, action[1], pin, other)
				}
				first[action[1]] = pin
			}
		}
	}
	if found < 10 {
		t.Errorf("the workflows use %d actions, want 10 or more", found)
	}
}

// TestUnpinnedActionsAreFound shows the rule what it has to refuse.
func TestUnpinnedActionsAreFound(t *testing.T) {
	t.Parallel()
	const hash = "08c6903cd8c0fde910a37f88322edcfb5dd907a8"
	for line, want := range map[string]bool{
		"      - uses: actions/checkout@" + hash + " # v5.0.0":            true,
		"        uses: a/b/.github/workflows/c.yml@" + hash + " # v1.2.3": true,
		"    uses: ./.github/workflows/ci.yml":                            true,
		"      - run: make":                                               true,
		"      - uses: actions/checkout@v5":                               false,
		"      - uses: actions/checkout@main # v5.0.0":                    false,
		"      - uses: actions/checkout":                                  false,
		"      - uses: actions/checkout@" + hash:                          false,
		"      - uses: actions/checkout@" + hash + " # v5":                false,
		"      - uses: actions/checkout@" + hash[1:] + " # v5.0.0":        false,
		"      - uses: docker://alpine:3":                                 false,
		`      - "uses": actions/checkout@v5`:                             false,
		"      - {uses: actions/checkout@v5}":                             false,
		"      - {name: a, uses: actions/checkout@v5}":                    false,
		"      - uses : actions/checkout@v5":                              false,
	} {
		if problem := notPinned(line); (problem == "") != want {
			t.Errorf("%s: %q, want a problem: %v", line, problem, !want)
		}
	}
}

// notPinned returns what is wrong with a line of a workflow, or "".
func notPinned(line string) string {
	switch {
	case inFlow.MatchString(line):
		return "write uses on a line without braces"
	case uses.MatchString(line) && !pinned.MatchString(line) && !ours.MatchString(line):
		return "write the 40 digits of a commit after @, and the version as # v1.2.3"
	}
	return ""
}
