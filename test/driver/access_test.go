package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// set makes an object with one key, or changes it. The kind is as in attributes.
func (b *rig) set(kind, namespace, name, value string) {
	b.T.Helper()
	meta, data, core := metav1.ObjectMeta{Name: name}, fixture.Marked(map[string]string{"key": value}), b.Cluster.Client().CoreV1()
	if kind == "secret" {
		expect.NoError(b.T, fixture.Put(b.T.Context(), core.Secrets(namespace), &corev1.Secret{ObjectMeta: meta, StringData: data}))
		return
	}
	expect.NoError(b.T, fixture.Put(b.T.Context(), core.ConfigMaps(namespace), &corev1.ConfigMap{ObjectMeta: meta, Data: data}))
}

// wantDenied wants a publish to be denied, and returns a file with the objects of the answer that would allow it.
func (b *rig) wantDenied(pod *corev1.Pod) (grant string) {
	b.T.Helper()
	err := b.TryPublish(b.T.Context(), pod)
	_, yaml, found := strings.Cut(fmt.Sprint(err), "to allow it, apply:\n")
	if status.Code(err) != codes.PermissionDenied || !found {
		b.T.Fatalf("publish = %v, want it denied, and what would allow it", err)
	}
	b.WantNothing(pod, "a denied publish")
	grant = filepath.Join(b.T.TempDir(), "grant.yaml")
	expect.NoError(b.T, os.WriteFile(grant, []byte(yaml), 0o600))
	return grant
}

func (b *rig) apply(file string) {
	b.T.Helper()
	if _, err := b.Cluster.Apply(b.T.Context(), file); err != nil {
		b.T.Fatal(err)
	}
}

// otherNamespace makes another namespace than the pods'.
func (b *rig) otherNamespace() string {
	b.T.Helper()
	name := b.Namespace + "-other"
	expect.NoError(b.T, b.Cluster.CreateNamespace(b.T.Context(), name))
	return name
}

// TestTheDriverHasNoRightToSecrets, in the API server's own words, when it is installed as we ship it.
func TestTheDriverHasNoRightToSecrets(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.NewBare(t)}
	config, err := b.Cluster.ServiceAccountConfig(t.Context(), environment.DriverNamespace, environment.DriverAccount)
	expect.NoError(t, err)
	reviews := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectAccessReviews()
	may := func(namespace, verb, resource string) bool {
		t.Helper()
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Version: "v1", Resource: resource},
		}}
		answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
		expect.NoError(t, err)
		return answer.Status.Allowed
	}
	for _, namespace := range []string{b.Namespace, "kube-system", environment.DriverNamespace, metav1.NamespaceAll} {
		if !may(namespace, "watch", "configmaps") {
			t.Errorf("the driver may not watch ConfigMaps in namespace %q", namespace)
		}
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			if may(namespace, verb, "secrets") {
				t.Errorf("the driver may %s Secrets in namespace %q", verb, namespace)
			}
		}
	}
}
