package driver

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// newAccessBench is a bench on which the service account app may read nothing, and the driver decides soon again.
func newAccessBench(t *testing.T) *rig {
	t.Helper()
	b := newBareRig(t)
	b.Use(environment.Node(t, "--recheck-interval=2s", "--publish-timeout=200ms", "--http-endpoint="+b.HTTP))
	if err := b.Cluster.EnsureServiceAccount(t.Context(), b.Namespace, "app"); err != nil {
		t.Fatal(err)
	}
	return b
}

// set makes an object with one key, or changes it. The kind is as in attributes.
func (b *rig) set(kind, namespace, name, value string) {
	b.T.Helper()
	var err error
	meta, ctx := metav1.ObjectMeta{Name: name}, b.T.Context()
	if kind == "secret" {
		objects := b.Cluster.Client().CoreV1().Secrets(namespace)
		object := &corev1.Secret{ObjectMeta: meta, StringData: kit.Marked(map[string]string{"key": value})}
		if _, err = objects.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, object, metav1.CreateOptions{})
		}
	} else {
		objects := b.Cluster.Client().CoreV1().ConfigMaps(namespace)
		object := &corev1.ConfigMap{ObjectMeta: meta, Data: kit.Marked(map[string]string{"key": value})}
		if _, err = objects.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	if err != nil {
		b.T.Fatal(err)
	}
}

// wantDenied wants a publish to be denied, and returns a file with what the answer says would allow it.
func (b *rig) wantDenied(pod *corev1.Pod) (grant string) {
	b.T.Helper()
	err := b.TryPublish(b.T.Context(), pod)
	_, yaml, found := strings.Cut(fmt.Sprint(err), "to allow it, apply:\n")
	if status.Code(err) != codes.PermissionDenied || !found {
		b.T.Fatalf("publish = %v, want it denied, and what would allow it", err)
	}
	b.WantNothing(pod, "a denied publish")
	grant = filepath.Join(b.T.TempDir(), "grant.yaml")
	if err := os.WriteFile(grant, []byte(yaml), 0o600); err != nil {
		b.T.Fatal(err)
	}
	return grant
}

func (b *rig) apply(file string) {
	b.T.Helper()
	if _, err := b.Cluster.Apply(b.T.Context(), file); err != nil {
		b.T.Fatal(err)
	}
}

// publishSoon publishes until it succeeds.
func (b *rig) publishSoon(pod *corev1.Pod) {
	b.T.Helper()
	environment.Eventually(b.T, soon, func() error { return b.TryPublish(b.T.Context(), pod) })
	b.T.Cleanup(func() { b.Unpublish(pod) })
}

// TestAPodReadsWithItsOwnRights is the way of a Secret, in the pod's namespace and in another one: denied, granted as the
// message says, current also over a restart without a call of the kubelet, revoked, and granted again.
func TestAPodReadsWithItsOwnRights(t *testing.T) {
	t.Parallel()
	for name, onDelete := range map[string]string{"in its namespace": "Keep", "in another namespace": "Remove"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			b := newAccessBench(t)
			namespace := b.Namespace
			if name == "in another namespace" {
				namespace = b.otherNamespace()
			}
			b.set("secret", namespace, "tls", "one")
			pod := b.PodOf("web", "app", map[string]string{"secret": "tls", "namespace": namespace, "onDelete": onDelete})
			grant := b.wantDenied(pod)
			b.apply(grant)
			b.publishSoon(pod)
			b.WantFile(pod, "key", "one")
			b.set("secret", namespace, "tls", "two")
			b.WantFile(pod, "key", "two")

			if err := b.Node.Kill(); err != nil {
				t.Fatal(err)
			}
			b.set("secret", namespace, "tls", "three")
			if err := b.Node.StartDriver(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.WantFile(pod, "key", "three")

			roles := b.Cluster.Client().RbacV1().RoleBindings(namespace)
			if err := roles.Delete(t.Context(), "read-secret-tls:"+b.Namespace+":app", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if onDelete == "Keep" {
				b.WantEvent(pod, "AccessLost", "the files stay")
				b.WantFile(pod, "key", "three")
			} else {
				b.WantEvent(pod, "AccessLost", "the files of the source are removed")
				b.WantNoFile(pod, "key")
			}
			b.apply(grant)
			b.set("secret", namespace, "tls", "four")
			b.WantFile(pod, "key", "four")
			b.wantNoSecretOf(namespace, began)
		})
	}
}

// otherNamespace makes another namespace than the pods'.
func (b *rig) otherNamespace() string {
	b.T.Helper()
	name := b.Namespace + "-other"
	if err := b.Cluster.CreateNamespace(b.T.Context(), name); err != nil {
		b.T.Fatal(err)
	}
	return name
}

// wantNoSecretOf wants that the driver itself has not asked for a Secret of the namespace.
func (b *rig) wantNoSecretOf(namespace string, since time.Time) {
	b.T.Helper()
	requests, err := b.Cluster.Requests(since)
	if err != nil {
		b.T.Fatal(err)
	}
	driver, byPod := cluster.ServiceAccountUser(environment.DriverNamespace, environment.DriverAccount), 0
	for _, r := range requests {
		if !strings.Contains(r.URI, "/namespaces/"+namespace+"/secrets") {
			continue
		}
		if r.User == driver {
			b.T.Errorf("the driver itself has asked: %s", r)
		}
		if r.User == cluster.ServiceAccountUser(b.Namespace, "app") {
			byPod++
		}
	}
	if byPod == 0 {
		b.T.Error("the pod's service account has never asked")
	}
}

// TestNoTokenIsSaid: the kubelet sends none because the CSIDriver object does not ask for any.
func TestNoTokenIsSaid(t *testing.T) {
	t.Parallel()
	b := newBareRig(t)
	b.Node = environment.Node(t, "--publish-timeout=200ms")
	pod := b.Pod("web", map[string]string{"secret": "tls"})
	b.WantRefusal(pod, codes.Unavailable, `if the CSIDriver object has tokenRequests: [{audience: ""}]`)
	b.WantNothing(pod, "without a token")
}

// TestTheDriverHasNoRightToSecrets: neither in what we ship nor, in the API server's own words, in what it is when that is
// installed.
func TestTheDriverHasNoRightToSecrets(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"base", "overlays/before-1.35"} {
		if rules := rulesOf(t, folder); len(rules) == 0 || allows(rules, "secrets") {
			t.Errorf("deploy/%s has the rules %v, want some, and none on Secrets", folder, rules)
		}
	}
	if !allows(rulesOf(t, "overlays/driver-identity"), "secrets") {
		t.Error("deploy/overlays/driver-identity has no rule on Secrets: this test does not find what it looks for")
	}
	b := newBareRig(t)
	config, err := b.Cluster.ServiceAccountConfig(t.Context(), environment.DriverNamespace, environment.DriverAccount)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config).AuthorizationV1()
	for _, namespace := range []string{b.Namespace, "kube-system", environment.DriverNamespace, metav1.NamespaceAll} {
		review, err := client.SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: cmp.Or(namespace, "default")},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var rules []rbacv1.PolicyRule
		for _, r := range review.Status.ResourceRules {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs})
		}
		if !allows(rules, "configmaps") || allows(rules, "secrets") {
			t.Errorf("in namespace %q the driver may %v, want ConfigMaps, and nothing on Secrets", namespace, rules)
		}
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			access, err := client.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Version: "v1", Resource: "secrets",
				}},
			}, metav1.CreateOptions{})
			if err != nil || access.Status.Allowed {
				t.Errorf("the driver may %s Secrets in namespace %q (%v)", verb, namespace, err)
			}
		}
	}
}

// rulesOf returns the rules of all roles of an installation.
func rulesOf(t *testing.T, folder string) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, o := range environment.Manifests(t, folder) {
		if !strings.HasSuffix(o.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}

// allows reports whether a rule names a resource of the core group.
func allows(rules []rbacv1.PolicyRule, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return (slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, "*")) &&
			(slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, "*"))
	})
}
