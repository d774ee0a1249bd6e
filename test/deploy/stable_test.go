package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	releases "github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestWhoMayWriteStableCopies: who may create ConfigMaps, and not update «web», cannot decide what the
// pods of «web» get as soon as its owner releases it.
func TestWhoMayWriteStableCopies(t *testing.T) {
	t.Parallel()
	in := installController(t, nil)
	wantOK := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	admin := in.cluster.Client()
	everywhere := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "delete"}}
	own := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"update", "patch"}, ResourceNames: []string{"mine", "mine.stable", "plain"}}
	copies := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"update", "patch"}, ResourceNames: []string{"owned.stable"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "author"}, Rules: []rbacv1.PolicyRule{everywhere, own, copies}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "author"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in.team, Name: "author"}},
	}
	_, err := admin.RbacV1().Roles(in.team).Create(t.Context(), role, metav1.CreateOptions{})
	wantOK(err)
	_, err = admin.RbacV1().RoleBindings(in.team).Create(t.Context(), binding, metav1.CreateOptions{})
	wantOK(err)
	_, err = admin.CoreV1().ServiceAccounts(in.team).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "author"}}, metav1.CreateOptions{})
	wantOK(err)
	config, err := in.cluster.ServiceAccountConfig(t.Context(), in.team, "author")
	wantOK(err)
	client, err := kubernetes.NewForConfig(config)
	wantOK(err)
	for _, m := range []*corev1.ConfigMap{labelledMap("owned.stable", "owned"), labelledMap("plain", "")} {
		_, err := admin.CoreV1().ConfigMaps(in.team).Create(t.Context(), m, metav1.CreateOptions{})
		wantOK(err)
	}
	author := client.CoreV1().ConfigMaps(in.team)
	create := func(name, of string) func() error {
		return func() error {
			_, err := author.Create(t.Context(), labelledMap(name, of), metav1.CreateOptions{})
			return err
		}
	}
	createFormer := func(name, of string) func() error {
		return func() error {
			m := labelledMap(name, "")
			m.Labels = map[string]string{releases.FormerLabel: of}
			_, err := author.Create(t.Context(), m, metav1.CreateOptions{})
			return err
		}
	}
	patch := func(name, text string) func() error {
		return func() error {
			_, err := author.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
	}
	remove := func(name string) func() error {
		return func() error { return author.Delete(t.Context(), name, metav1.DeleteOptions{}) }
	}
	label := func(of string) string { return fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, stableOf, of) }
	awaitPolicy(t, create("probe.stable", "probe"))
	for name, test := range map[string]struct {
		try  func() error
		want string // Empty: it succeeds.
	}{
		"prepare the copy of somebody's object": {create("web.stable", "web"), "you need the right to update configmaps/web in namespace " + in.team},
		"change somebody's copy":                {patch("owned.stable", `{"data": {"a": "evil"}}`), "you need the right to update configmaps/owned"},
		"take the label from somebody's copy":   {patch("owned.stable", label("null")), "you need the right to update configmaps/owned"},
		"label an object with another name":     {patch("plain", label(`"plain"`)), ""},
		"create the copy of its object":         {create("mine.stable", "mine"), ""},
		"create another object":                 {create("other.stable", ""), ""},
		"keep contents of somebody's object":    {createFormer("web.former", "web"), "you need the right to update configmaps/web in namespace " + in.team},
		"keep contents of its object":           {createFormer("mine.former", "mine"), ""},
		"delete somebody's copy":                {remove("owned.stable"), "you need the right to update configmaps/owned"},
	} {
		err := test.try()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("to %s = %v, want %q", name, err, test.want)
		}
	}
	wantOK(patch("mine.stable", `{"data": {"a": "2"}}`)())
	wantOK(remove("mine.stable")())
	in.wantCopiesGoWithTheirNamespace(t)
}

// wantCopiesGoWithTheirNamespace checks that Kubernetes' own controller, which may only delete, can empty a namespace.
func (in *installed) wantCopiesGoWithTheirNamespace(t *testing.T) {
	t.Helper()
	admin := in.cluster.Client()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ending-"}}
	namespace, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps(namespace.Name).Create(t.Context(), labelledMap("web.stable", "web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := in.cluster.AdminConfig()
	config.Impersonate.UserName = "system:serviceaccount:kube-system:namespace-controller"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps(namespace.Name)
	if err := maps.Delete(t.Context(), "web.stable", metav1.DeleteOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("to delete the copy of a namespace that stays = %v, want that it is refused", err)
	}
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), namespace.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err = maps.Delete(ctx, "web.stable", metav1.DeleteOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Errorf("the copy of a namespace that is deleted stays: %v", err)
	}
}

// labelledMap returns a ConfigMap with the label of stable copies, unless «of» is empty.
func labelledMap(name, of string) *corev1.ConfigMap {
	m := fixture.ConfigMap(name, map[string]string{"a": "1"})
	if of != "" {
		m.Labels = map[string]string{stableOf: of}
	}
	return m
}
