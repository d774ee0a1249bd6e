package deploy

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestPoliciesOnAnAPIServerThatHasJustStarted: the API server takes the policies as the first thing after its start, and then
// converts. Versions of Kubernetes have compiled expressions in an order that depended on chance. It takes 20 starts with
// LIVECONFIG_SOAK.
func TestPoliciesOnAnAPIServerThatHasJustStarted(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	namespace := cluster.NewNamespace(t, c)
	if _, err := c.Kubectl(t.Context(), "label", "namespace", namespace, api.Domain+"/volumes=configMaps"); err != nil {
		t.Fatal(err)
	}
	for range soak.Rounds(3, 20) {
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out, err := c.Kubectl(t.Context(), "apply", "-k", inRepo(t, "deploy", "admission")); err != nil {
			t.Fatalf("install the policies: %v\n%s", err, out)
		}
		awaitFirstConversion(t, &policies{installed: &installed{cluster: c, namespace: namespace}, driver: api.DriverName}, namespace)
		if out, err := c.Kubectl(t.Context(), "delete", "-k", inRepo(t, "deploy", "admission")); err != nil {
			t.Fatalf("remove the policies: %v\n%s", err, out)
		}
	}
}

// awaitFirstConversion waits for the policy. A pod may be refused until the API server has read the service accounts.
func awaitFirstConversion(t *testing.T, p *policies, namespace string) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		volumes, err := p.creates(ctx, namespace, podOf(aConfigMap))
		last = err
		return err == nil && volumes[0].CSI != nil, nil
	})
	if err != nil {
		t.Fatalf("the policy converts nothing: %v, %v", err, last)
	}
}
