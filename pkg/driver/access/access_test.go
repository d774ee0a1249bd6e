package access_test

import (
	"fmt"
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

// types are those of the clients.
func types(t *testing.T) *kubeclient.Types {
	t.Helper()
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// authority returns one that asks an API server for reviews.
func authority(t *testing.T, server http.RoundTripper, configMaps, secrets access.Reader) *access.Authority {
	t.Helper()
	all := types(t)
	config := &rest.Config{Host: "https://localhost"}
	reviews, err := all.Client(config, &http.Client{Transport: server}, authorizationv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	a, err := access.New(access.Config{
		Types: all, Reviews: reviews, Server: config, ConfigMaps: configMaps, Secrets: secrets,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestChoose has every configuration, each with a source of either kind in the pod's own and in a
// foreign namespace.
func TestChoose(t *testing.T) {
	t.Parallel()
	const byDriver, byPod = access.ByDriver, access.ByPod
	driver, itself, behalf := access.Driver(), access.Of(pod()), access.OnBehalf(pod())
	type readers struct{ configMaps, secrets access.Reader }
	type source struct {
		kind      api.Kind
		namespace string
	}
	ownMap, ownSecret := source{api.ConfigMap, "default"}, source{api.Secret, "default"}
	foreignMap, foreignSecret := source{api.ConfigMap, "shared"}, source{api.Secret, "shared"}
	tests := map[readers]map[source]access.Identity{
		{byDriver, byDriver}: {ownMap: driver, ownSecret: driver, foreignMap: behalf, foreignSecret: behalf},
		{byDriver, byPod}:    {ownMap: driver, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
		{byPod, byDriver}:    {ownMap: itself, ownSecret: driver, foreignMap: itself, foreignSecret: behalf},
		{byPod, byPod}:       {ownMap: itself, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
	}
	for r, sources := range tests {
		a := authority(t, &reviewer{t: t}, r.configMaps, r.secrets)
		for s, want := range sources {
			t.Run(fmt.Sprintf("%s of %s with ConfigMaps by %s and Secrets by %s", s.kind, s.namespace, r.configMaps, r.secrets), func(t *testing.T) {
				t.Parallel()
				if got := a.Choose(pod(), api.Ref{Kind: s.kind, Namespace: s.namespace, Name: "web"}); got != want {
					t.Errorf("Choose = %s, want %s", got, want)
				}
			})
		}
	}
}

// TestWhatIsForeign: neither a namespace whose name begins alike, nor none at all, is the pod's
// own.
func TestWhatIsForeign(t *testing.T) {
	t.Parallel()
	a := authority(t, &reviewer{t: t}, access.ByDriver, access.ByDriver)
	for _, namespace := range []string{"default-2", "defaul", "Default", ""} {
		if got := a.Choose(pod(), api.Ref{Kind: api.Secret, Namespace: namespace, Name: "web"}); got != access.OnBehalf(pod()) {
			t.Errorf("Choose for namespace %q = %s, want %s", namespace, got, access.OnBehalf(pod()))
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for id, want := range map[access.Identity]string{
		access.Driver():        "driver",
		access.Of(pod()):       "serviceaccount default/runner",
		access.OnBehalf(pod()): "driver for serviceaccount default/runner",
	} {
		if got := id.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

// TestWhoseClientItIs: what the driver reads for itself or on behalf of a pod goes out with its
// own credentials, and nothing else does.
func TestWhoseClientItIs(t *testing.T) {
	t.Parallel()
	all, err := access.New(access.Config{
		Driver: driverClient{}, Types: types(t), Server: &rest.Config{Host: "https://localhost"},
		ConfigMaps: access.ByDriver, Secrets: access.ByDriver,
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[access.Identity]bool{
		access.Driver(): true, access.OnBehalf(pod()): true, access.Of(pod()): false,
	} {
		client, err := all.Client(id)
		if _, got := client.(driverClient); got != want || err != nil {
			t.Errorf("Client(%s) = %T, %v, want the driver's: %t", id, client, err, want)
		}
	}
}

// driverClient is a client with a type that a test can recognize.
type driverClient struct{ rest.Interface }
