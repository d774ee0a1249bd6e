package driver

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// set makes an object with one key, or changes it. The kind is as in attributes.
func (b *rig) set(kind, namespace, name, value string) {
	b.T.Helper()
	var err error
	meta, ctx := metav1.ObjectMeta{Name: name}, b.T.Context()
	if kind == "secret" {
		objects := b.Cluster.Client().CoreV1().Secrets(namespace)
		object := &corev1.Secret{ObjectMeta: meta, StringData: fixture.Marked(map[string]string{"key": value})}
		if _, err = objects.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, object, metav1.CreateOptions{})
		}
	} else {
		objects := b.Cluster.Client().CoreV1().ConfigMaps(namespace)
		object := &corev1.ConfigMap{ObjectMeta: meta, Data: fixture.Marked(map[string]string{"key": value})}
		if _, err = objects.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	must(b.T, err)
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
	must(b.T, os.WriteFile(grant, []byte(yaml), 0o600))
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
	must(b.T, b.Cluster.CreateNamespace(b.T.Context(), name))
	return name
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
	must(t, err)
	client := kubernetes.NewForConfigOrDie(config).AuthorizationV1()
	for _, namespace := range []string{b.Namespace, "kube-system", environment.DriverNamespace, metav1.NamespaceAll} {
		review, err := client.SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: cmp.Or(namespace, "default")},
		}, metav1.CreateOptions{})
		must(t, err)
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
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
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
