package identity_test

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ref     api.Ref
		want    identity.Identity
		wantErr string
	}{
		"a config map of the pod's namespace is read by the driver": {
			ref:  api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"},
			want: identity.Driver(),
		},
		"a secret of the pod's namespace is read by the driver": {
			ref:  api.Ref{Kind: api.Secret, Namespace: "default", Name: "cert"},
			want: identity.Driver(),
		},
		"a config map of another namespace is read by nobody": {
			ref: api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "web"},
			wantErr: `pod default/web-0 may not read configmap shared/web: sources outside the pod's namespace "default" ` +
				`are not served by this version; remove the namespace or copy the object`,
		},
		"a secret of another namespace is read by nobody": {
			ref: api.Ref{Kind: api.Secret, Namespace: "default-2", Name: "cert"},
			wantErr: `pod default/web-0 may not read secret default-2/cert: sources outside the pod's namespace "default" ` +
				`are not served by this version; remove the namespace or copy the object`,
		},
		"no namespace is not the pod's": {
			ref: api.Ref{Kind: api.Secret, Name: "cert"},
			wantErr: `pod default/web-0 may not read secret /cert: sources outside the pod's namespace "default" ` +
				`are not served by this version; remove the namespace or copy the object`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := identity.New(fake.NewClientset().CoreV1()).Choose(pod(), tt.ref)
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

func TestClient(t *testing.T) {
	t.Parallel()
	own := fake.NewClientset().CoreV1()
	a := identity.New(own)
	if got, err := a.Client(identity.Driver()); err != nil || got != own {
		t.Errorf("Client of the driver = %v, %v, want the one given to New", got, err)
	}
	const want = "no credentials are held for serviceaccount default/runner"
	got, err := a.Client(identity.Identity{Namespace: "default", ServiceAccount: "runner"})
	if got != nil || err == nil || err.Error() != want {
		t.Errorf("Client of a service account = %v, %v, want no client and %s", got, err, want)
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
