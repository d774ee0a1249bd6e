package fleet

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/kubeletport"
)

// driverNamespace is where the drivers' pods are.
const driverNamespace = "liveconfig-system"

// nobody is an address at which connections are refused.
const nobody = "127.0.0.1:1"

// drivers answer /statusz, each behind the port of its kubelet.
type drivers struct {
	*kubeletport.Port

	mu      sync.Mutex // Guards reports.
	reports map[string]statusz.Report
}

func newDrivers(t *testing.T, c *cluster.Cluster) *drivers {
	t.Helper()
	expect.NoError(t, c.CreateNamespace(t.Context(), driverNamespace))
	expect.NoError(t, c.EnsureServiceAccount(t.Context(), driverNamespace, "liveconfig-driver"))
	return &drivers{Port: kubeletport.Open(t, c, driverNamespace), reports: map[string]statusz.Report{}}
}

// add makes a node with a driver's pod that is ready.
func (d *drivers) add(t *testing.T, node string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		report := d.reports[node]
		d.mu.Unlock()
		_ = statusz.Write(w, report)
	}))
	t.Cleanup(server.Close)
	d.Add(t, node, server.Listener.Addr().String())
}

// set defines what the driver of a node answers.
func (d *drivers) set(report statusz.Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports[report.Node] = report
}
