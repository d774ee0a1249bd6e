package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// allowSecrets lets the default service account of a namespace read its Secrets, as in the README.
func (s *site) allowSecrets(t testing.TB, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "read-secrets"}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := s.Client().RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
	}
	if _, err := s.Client().RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitPods waits until check, which sees each pod of a namespace and then each change of one, returns nil. Otherwise the test
// fails with its last error.
func (s *site) awaitPods(
	t testing.TB, within time.Duration, namespace string, check func(watch.EventType, *corev1.Pod) error,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	last := errors.New("there is no pod")
	for ctx.Err() == nil { // The API server ends a watch whose reader does not keep up.
		w, err := s.Client().CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
		expect.NoError(t, err)
		for event := range w.ResultChan() {
			got, ok := event.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("the watch ends with %v", event.Object)
			}
			if last = check(event.Type, got); last == nil {
				w.Stop()
				return
			}
		}
		w.Stop()
	}
	t.Fatalf("after %s: %v", within, last)
}
