package driver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// statusOf reads what the driver reports its volumes, and looks for values and tokens in it.
func statusOf(b *fixture.Fixture, query string) statusz.Report {
	b.T.Helper()
	text := b.Get("/statusz" + query)
	if err := environment.Leak([]byte(text)); err != nil {
		b.T.Errorf("/statusz: %v", err)
	}
	report, err := statusz.Read(strings.NewReader(text))
	must(b.T, err)
	return report
}

// TestStatusTellsWhatIsInTheFiles of real volumes: versions that the driver knows and those in the files.
func TestStatusTellsWhatIsInTheFiles(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	made := b.CreateConfigMap("web", map[string]string{"color": "red"})
	b.SetSecret("tls", map[string]string{"key": "k1"})
	pod := b.Pod("web", map[string]string{"sources": "[{configMap: {name: web}}, {secret: {name: tls}}]"})
	other := b.Pod("other", map[string]string{"configMap": "web"})
	b.Publish(pod)
	b.Publish(other)
	report := statusOf(b, "")
	if !report.Recovered || report.Node != "test-node" || len(report.Volumes) != 2 || report.Volumes[0].Pod.Name != "other" {
		t.Fatalf("status = %+v, want two volumes in order", report)
	}
	query := "?pod=" + b.Namespace + "/web"
	v := statusOf(b, query).Volumes[0]
	first := &statusz.Version{UID: string(made.UID), ResourceVersion: made.ResourceVersion}
	if diff := cmp.Diff([]*statusz.Version{first, first}, []*statusz.Version{v.Sources[0].Known, v.Sources[0].Projected}); diff != "" {
		t.Errorf("versions of the ConfigMap (-want +got):\n%s", diff)
	}
	if v.State != statusz.Live || v.Problem != nil || v.TargetPath != b.Node.Target(pod, fixture.VolumeName) || v.ProjectedAt.IsZero() {
		t.Errorf("volume = %+v, want it live and well", v)
	}
	if want := "serviceaccount " + b.Namespace + "/default"; v.Sources[1].ReadBy != want || v.Sources[1].Kind != "Secret" {
		t.Errorf("source = %+v, want a Secret that is read by %s", v.Sources[1], want)
	}
}

// TestStatusAnswersReadersOnly, and refuses malformed requests.
func TestStatusAnswersReadersOnly(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	tests := map[string]struct {
		method, path string
		code         int
	}{
		"all":                    {http.MethodGet, "/statusz", http.StatusOK},
		"a look at the headers":  {http.MethodHead, "/statusz", http.StatusOK},
		"a pod that is not here": {http.MethodGet, "/statusz?pod=default/none", http.StatusOK},
		"a write":                {http.MethodPost, "/statusz", http.StatusMethodNotAllowed},
		"a pod without a name":   {http.MethodGet, "/statusz?pod=default", http.StatusBadRequest},
		"a path":                 {http.MethodGet, "/statusz?pod=a/b/c", http.StatusBadRequest},
		"below":                  {http.MethodGet, "/statusz/x", http.StatusNotFound},
	}
	for name, tc := range tests {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+b.HTTP+tc.path, http.NoBody)
		must(t, err)
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != tc.code {
			t.Errorf("%s: %s %s = %s, want %d", name, tc.method, tc.path, response.Status, tc.code)
		}
		if kind := response.Header.Get("Content-Type"); tc.code == http.StatusOK && kind != "application/json" {
			t.Errorf("%s: the answer is %s, want application/json", name, kind)
		}
	}
}

// TestMetricsOfARealDriverAreTheKnownOnes: the list that alerts and dashboards are held to is what is served. Alerts on what
// the driver cannot know of faults 24 and 30 hang on it.
func TestMetricsOfARealDriverAreTheKnownOnes(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	b.Publish(b.Pod("web", map[string]string{"configMap": "web"}))
	const calls = `csi_plugin_operations_seconds_count{driver_name="csi.liveconfig.internal",grpc_status_code="OK",` +
		`method_name="/csi.v1.Node/NodePublishVolume"}`
	b.WantNumber(calls, 1)
	known := ofLiveconfig(docs.Rows(t, "metrics.md", "the driver's metrics"))
	known = slices.DeleteFunc(known, func(row string) bool { return strings.Contains(row, "manifest_problems") }) // It has none.
	served := ofLiveconfig(docs.Metrics(b.Get("/metrics")))
	if diff := cmp.Diff(known, served); diff != "" {
		t.Errorf("metrics (-known +served):\n%s", diff)
	}
}

// ofLiveconfig returns the name, type and help of each metric that is the project's own.
func ofLiveconfig(rows [][]string) []string {
	var all []string
	for _, row := range rows {
		if strings.HasPrefix(row[0], "`liveconfig_") {
			all = append(all, strings.Join(row[:3], " "))
		}
	}
	return all
}
