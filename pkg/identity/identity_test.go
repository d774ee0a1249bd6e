package identity_test

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

func authority(t *testing.T, configMaps, secrets identity.Reader) *identity.Authority {
	t.Helper()
	a, err := identity.New(identity.Config{
		Driver: fake.NewClientset().CoreV1(), Server: &rest.Config{Host: "https://localhost"},
		ConfigMaps: configMaps, Secrets: secrets,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestChoose(t *testing.T) {
	t.Parallel()
	const driver, byPod = identity.ByDriver, identity.ByPod
	refused := func(what string) string {
		return `pod default/web-0 may not read ` + what + `: sources outside the pod's namespace "default" ` +
			`are served with --secret-identity=pod only; remove the namespace or copy the object`
	}
	ref := func(kind api.Kind, namespace string) api.Ref {
		return api.Ref{Kind: kind, Namespace: namespace, Name: "web"}
	}
	tests := map[string]struct {
		configMaps, secrets identity.Reader
		ref                 api.Ref
		want                identity.Identity
		wantErr             string
	}{
		"a config map of the pod's namespace is read by the driver": {driver, driver, ref(api.ConfigMap, "default"), identity.Driver(), ""},
		"or by the pod":                                        {byPod, driver, ref(api.ConfigMap, "default"), identity.Of(pod()), ""},
		"a secret of it is read by the driver":                 {driver, driver, ref(api.Secret, "default"), identity.Driver(), ""},
		"or by the pod, as wanted":                             {driver, byPod, ref(api.Secret, "default"), identity.Of(pod()), ""},
		"each kind as wanted for it":                           {driver, byPod, ref(api.ConfigMap, "default"), identity.Driver(), ""},
		"a config map of another namespace is read by the pod": {driver, byPod, ref(api.ConfigMap, "shared"), identity.Of(pod()), ""},
		"so is a secret":                                       {driver, byPod, ref(api.Secret, "default-2"), identity.Of(pod()), ""},
		"a config map of another namespace is read by nobody": {
			driver, driver, ref(api.ConfigMap, "shared"), identity.Identity{}, refused("configmap shared/web"),
		},
		"nor is a secret":               {byPod, driver, ref(api.Secret, "default-2"), identity.Identity{}, refused("secret default-2/web")},
		"no namespace is not the pod's": {driver, driver, ref(api.Secret, ""), identity.Identity{}, refused("secret /web")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := authority(t, tt.configMaps, tt.secrets).Choose(pod(), tt.ref)
			if tt.wantErr == "" {
				if err != nil || got != tt.want {
					t.Errorf("Choose = %v, %v, want %v", got, err, tt.want)
				}
				return
			}
			var denied *identity.DeniedError
			if !errors.As(err, &denied) || err.Error() != tt.wantErr {
				t.Fatalf("Choose = %v, want a *DeniedError %s", err, tt.wantErr)
			}
			if denied.Pod != pod() || denied.Ref != tt.ref {
				t.Errorf("the error names %v and %v, want %v and %v", denied.Pod, denied.Ref, pod(), tt.ref)
			}
		})
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for id, want := range map[identity.Identity]string{
		identity.Driver(): "driver",
		{Namespace: "default", ServiceAccount: "runner"}: "serviceaccount default/runner",
	} {
		if got := id.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}
