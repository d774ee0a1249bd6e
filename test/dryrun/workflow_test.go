package dryrun

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// notRun begins the name of each step that tests do not run.
const notRun = "not run by tests: "

// step is one of a workflow's job.
type step struct {
	Name, Uses, Run string
}

// workflow returns the steps of the job that publishes, and the environment that they have.
func workflow(t *testing.T, repo string) (steps []step, env map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []step
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Jobs["publish"].Steps, file.Jobs["publish"].Env
}

// commands returns what a test runs of the workflow.
func commands(t *testing.T, repo string) []string {
	t.Helper()
	steps, env := workflow(t, repo)
	want := map[string]string{"VERSION": "${{ github.ref_name }}", "REGISTRY": "ghcr.io/${{ github.repository_owner }}"}
	if !maps.Equal(env, want) {
		t.Errorf("the job's environment is %v, want %v: the dry run has these", env, want)
	}
	var run []string
	for _, s := range steps {
		if !strings.HasPrefix(s.Name, notRun) {
			run = append(run, s.Run)
		}
	}
	return run
}

// TestStepsOfTheWorkflow: a step is run by the dry run, or its name has that it is not. What is not run gets only files that
// the dry run looks at, and actions that are what they were.
func TestStepsOfTheWorkflow(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	if got := commands(t, repo); len(got) != 2 || got[0] != "make release" || got[1] != "make release/push" {
		t.Errorf("the dry run runs %q, want make release and make release/push", got)
	}
	pinned := regexp.MustCompile(`^[a-z/-]+@[0-9a-f]{40}$`)
	steps, _ := workflow(t, repo)
	var all strings.Builder
	for _, s := range steps {
		if s.Uses != "" && !pinned.MatchString(s.Uses) {
			t.Errorf("the step %q uses %s, want a commit", s.Name, s.Uses)
		}
		all.WriteString(s.Uses + s.Run + "\n")
	}
	for _, want := range []string{"cosign sign --yes <bin/release/pushed", "attest-build-provenance@", "bin/release/files/*"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no step has %q", want)
		}
	}
}

// TestPagesNameTheIdentity: the commands on the page of security check for the identity that the workflow has.
func TestPagesNameTheIdentity(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "security", "checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"https://github.com/liveconfig-csi/liveconfig/.github/workflows/release.yml@refs/tags/v",
		"https://token.actions.githubusercontent.com", "gh attestation verify", "sha256sum --check",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/security/checks.md does not have %s", want)
		}
	}
}
