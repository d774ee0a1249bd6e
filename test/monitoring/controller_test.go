package monitoring

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

const ofController = "liveconfig_controller_"

// soon is how long a process may take that takes a moment when nothing else runs on the machine.
const soon = time.Minute

// controllersMetrics returns the lines of /metrics of a real controller, which never reaches an API server.
func controllersMetrics(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, log := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "log")
	const nowhere = `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fixture.FreeAddress(t)
	p, err := process.Start(context.WithoutCancel(t.Context()), process.Config{Path: environment.Controller(t), LogFile: log, Args: []string{
		"--kubeconfig=" + kubeconfig, "--http-endpoint=" + address, "--leader-elect=false", "--node-taint", "--driver-namespace=x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(soon); err != nil {
			t.Errorf("stop the controller: %v", err)
		}
	}()
	return slices.Collect(strings.Lines(get(t, "http://"+address+"/metrics", p)))
}

// get returns what a process answers once it listens.
func get(t *testing.T, url string, p *process.Process) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		body, err := getOnce(ctx, url)
		if err == nil {
			return body
		}
		select {
		case <-again.C:
		case <-p.Done():
			t.Fatal(p.Err())
		case <-ctx.Done():
			t.Fatalf("after %s: %v", soon, err)
		}
	}
}

func getOnce(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return string(body), err
}

var (
	// ofControllers is a selector of series of the controller, or one such series.
	ofControllers = regexp.MustCompile(ofController + `[a-z_]+(?:\{[^}]*\})?`)
	// matcher is a label of it with a value, or several.
	matcher = regexp.MustCompile(`([a-z_]+)=~?"([^"]*)"`)
)

// TestMetricsOfAController stand in rules, panels and the tests of the rules as they are. None is a driver's too, so that a
// rule about the one is silent about the other.
func TestMetricsOfAController(t *testing.T) {
	t.Parallel()
	scraped := controllersMetrics(t)
	wanted := []one{{name: "process_start_time_seconds"}, {name: "process_resident_memory_bytes"}}
	texts := append(queries(t), string(read(t, "testdata/rules_test.yaml")))
	for _, selector := range ofControllers.FindAllString(strings.Join(texts, "\n"), -1) {
		wanted = append(wanted, series(selector)...)
	}
	if len(wanted) < 20 {
		t.Errorf("only these were found to be used: %v", wanted)
	}
	for _, want := range wanted {
		if !slices.ContainsFunc(scraped, want.isIn) {
			t.Errorf("a controller has no %s{%s}", want.name, want.label)
		}
	}
	for _, line := range scraped {
		if strings.HasPrefix(line, "liveconfig_") && !strings.HasPrefix(line, ofController) {
			t.Errorf("a controller has what is the driver's: %s", line)
		}
	}
	for _, name := range golden(t) {
		if strings.HasPrefix(name, ofController) {
			t.Errorf("a driver has what is the controller's: %s", name)
		}
	}
}

// one is what some series must have: a name, and perhaps a label such as reason="problem".
type one struct{ name, label string }

// series returns what a selector asks for. The labels of the target come from Prometheus.
func series(selector string) []one {
	name, labels, _ := strings.Cut(selector, "{")
	all := []one{{name: name}}
	for _, found := range matcher.FindAllStringSubmatch(labels, -1) {
		if slices.Contains([]string{"job", "instance"}, found[1]) {
			continue
		}
		for value := range strings.SplitSeq(found[2], "|") {
			all = append(all, one{name, fmt.Sprintf("%s=%q", found[1], value)})
		}
	}
	return all
}

// isIn reports whether a line of /metrics is of such a series.
func (o one) isIn(line string) bool {
	name := line[:strings.IndexAny(line, "{ ")]
	return name == o.name && strings.Contains(line, o.label)
}
