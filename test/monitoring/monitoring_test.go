// Package monitoring tests what deploy/monitoring offers to operators who watch drivers and the rollout controller: the alert
// rules do what they describe, and rules and dashboard speak of metrics that there are.
package monitoring

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/docs"
)

// repo is the checkout as this package's tests see it.
const repo = "../.."

func offered(name string) string { return filepath.Join(repo, "deploy", "monitoring", name) }

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// promtool runs Prometheus' own tool, which `make bin/servers` unpacks.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(repo, "bin/debian-servers/usr/bin/promtool"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	promtool(t, ".", "check", "rules", "--lint=all", "--lint-fatal", offered("rules.yaml"))
}

// TestRulesDoWhatTheySay has Prometheus evaluate them over series of hours.
func TestRulesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // promtool finds rules beside the tests of them.
	for from, to := range map[string]string{offered("rules.yaml"): "rules.yaml", "testdata/rules_test.yaml": "rules_test.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, to), read(t, from), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, dir, "test", "rules", "rules_test.yaml")
}

// rules are a file of rules, as far as this package reads it.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func offeredRules(t *testing.T) rules {
	t.Helper()
	var r rules
	if err := yaml.UnmarshalStrict(read(t, offered("rules.yaml")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTheOperatorsObjectHasTheSameRules, which are written once.
func TestTheOperatorsObjectHasTheSameRules(t *testing.T) {
	t.Parallel()
	var object struct {
		Kind string `json:"kind"`
		Spec rules  `json:"spec"`
	}
	if err := yaml.Unmarshal(read(t, offered("prometheusrule.yaml")), &object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(offeredRules(t), object.Spec); diff != "" || object.Kind != "PrometheusRule" {
		t.Errorf("prometheusrule.yaml differs from rules.yaml, run: make monitoring (-want +got):\n%s", diff)
	}
}

// TestEachAlertHelps: it has its severity, what it means and where to read on, and has a test.
func TestEachAlertHelps(t *testing.T) {
	t.Parallel()
	tests := string(read(t, "testdata/rules_test.yaml"))
	for _, g := range offeredRules(t).Groups {
		for _, r := range g.Rules {
			if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("%s has the severity %q", r.Alert, severity)
			}
			for _, text := range []string{"summary", "description", "runbook_url"} {
				if r.Annotations[text] == "" {
					t.Errorf("%s has no %s", r.Alert, text)
				}
			}
			if strings.Count(tests, r.Alert) < 2 {
				t.Errorf("%s is not tested both to fire and to be silent", r.Alert)
			}
		}
	}
}

// dashboard is Grafana's, as far as this package reads it.
type dashboard struct {
	Title  string `json:"title"`
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct {
			X, Y, W, H int
		} `json:"gridPos"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func offeredDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, offered("dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardIsWhole: its panels have something to show and do not cover each other.
func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	d := offeredDashboard(t)
	if d.Title == "" || d.UID == "" || len(d.Panels) == 0 {
		t.Fatalf("dashboard %q (%s) has %d panels", d.Title, d.UID, len(d.Panels))
	}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || (len(p.Targets) == 0) != (p.Type == "row") || ids[p.ID] {
			t.Errorf("panel %d %q has no title, nothing to show, or the ID of another one", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("panel %q is over %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestPanelsAreQueries that Prometheus can parse.
func TestPanelsAreQueries(t *testing.T) {
	t.Parallel()
	group := map[string]any{"name": "dashboard"}
	var records []map[string]string
	for _, expr := range panelQueries(t) {
		records = append(records, map[string]string{"record": "panel", "expr": strings.ReplaceAll(expr, "$__rate_interval", "5m")})
	}
	group["rules"] = records
	data, err := yaml.Marshal(map[string]any{"groups": []any{group}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, ".", "check", "rules", "--lint=none", path)
}

// queries returns those of rules and panels.
func queries(t *testing.T) []string {
	t.Helper()
	all := panelQueries(t)
	for _, g := range offeredRules(t).Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	return all
}

func panelQueries(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, p := range offeredDashboard(t).Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

var (
	// metric is a name that can only be one of a metric: every one of ours has an underscore.
	metric = regexp.MustCompile(`\b(?:liveconfig|csi|go|process)_[a-z_]+\b`)
	// kindOf is a value of the label kind, or several.
	kindOf = regexp.MustCompile(`kind=~?"([A-Za-z|]+)"`)
)

// golden returns the names of all series of the driver, from the page that its own tests hold it to, and of those that
// client_golang adds.
func golden(t *testing.T) []string {
	t.Helper()
	names := []string{"process_start_time_seconds", "process_resident_memory_bytes"}
	for _, row := range docs.Rows(t, "metrics.md", "the driver's metrics") {
		name, _, _ := strings.Cut(strings.Trim(row[0], "`"), "{")
		names = append(names, name)
		if row[1] == "histogram" {
			names = append(names, name+"_bucket", name+"_sum", name+"_count")
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d metrics are known: %v", len(names), names)
	}
	return names
}

// TestOnlyMetricsThatThereAreAreUsed by rules and panels, and only kinds that there are. Those of the controller have a
// separate test.
func TestOnlyMetricsThatThereAreAreUsed(t *testing.T) {
	t.Parallel()
	known := golden(t)
	queries := queries(t)
	used := 0
	for _, query := range queries {
		for _, name := range metric.FindAllString(query, -1) {
			used++
			if !slices.Contains(known, name) && !strings.HasPrefix(name, ofController) {
				t.Errorf("there is no metric %s, which is used by %s", name, query)
			}
		}
		for _, found := range kindOf.FindAllStringSubmatch(query, -1) {
			for kind := range strings.SplitSeq(found[1], "|") {
				if !isKind(kind) {
					t.Errorf("there is no kind %s, which is used by %s", kind, query)
				}
			}
		}
	}
	if used < len(queries) {
		t.Errorf("%d queries use %d metrics, want at least one each", len(queries), used)
	}
}
