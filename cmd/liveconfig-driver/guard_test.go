package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// What the driver is made of. Everything that is linked takes memory on every node: its pages, and what it allocates before
// anybody has called it.
const linkedPackages = 527

// unwanted are packages that would come with a single careless import, and what they would bring.
func unwanted() map[string]string {
	return map[string]string{
		"k8s.io/client-go/kubernetes":          "every type of the API",
		"k8s.io/client-go/applyconfigurations": "every type of the API, a second time",
		"k8s.io/client-go/discovery":           "OpenAPI",
		"k8s.io/kube-openapi/pkg/validation":   "OpenAPI, and methods that are found by reflection: the linker keeps all methods of all types",
		"k8s.io/component-base/featuregate":    "the switches of Kubernetes' own programs",
		"k8s.io/component-base/tracing":        "tracing",
		"go.opentelemetry.io/otel/sdk":         "tracing",
		"go.opentelemetry.io/otel/exporters":   "tracing",

		"k8s.io/component-base/metrics/legacyregistry": "the metrics of Kubernetes' own programs",
	}
}

// TestProfilesAreNotServed: a library brings them to the mux that all packages share. It must not be ours.
func TestProfilesAreNotServed(t *testing.T) {
	t.Parallel()
	p := &parts{memory: &budget.Memory{}, origin: &origin{gauges: func(*telemetry.Gauges) {}}}
	p.metrics = p.newMetrics(config{})
	for name, tt := range map[string]struct {
		mux  *http.ServeMux
		code int
	}{
		"ours":        {p.mux(config{}), http.StatusNotFound},
		"that of all": {http.DefaultServeMux, http.StatusOK},
	} {
		recorder := httptest.NewRecorder()
		tt.mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/", nil))
		if recorder.Code != tt.code {
			t.Errorf("GET /debug/pprof/ of the mux that is %s = %d, want %d", name, recorder.Code, tt.code)
		}
	}
}

func tool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestGuardLinked: what is linked is what is used.
func TestGuardLinked(t *testing.T) {
	t.Parallel()
	packages := strings.Fields(tool(t, "list", "-deps", "."))
	if got := len(packages); got > linkedPackages || got < linkedPackages/2 {
		t.Errorf("the driver is made of %d packages, want at most %d", got, linkedPackages)
	}
	for _, p := range packages {
		for prefix, brings := range unwanted() {
			if p == prefix || strings.HasPrefix(p, prefix+"/") {
				t.Errorf("the driver is linked with %s, which brings %s", p, brings)
			}
		}
	}
}
