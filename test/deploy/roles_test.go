package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// narrow is the Role of an owner in place of one for all Secrets.
const narrow = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: TEAM, annotations: {liveconfig.internal/copies-of: secret/password}}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [password], verbs: [get, list, watch]}]
`

// TestRolesAreKept runs the controller under its policies: the copy's name is in the owner's Role, so the rollout happens,
// although the pods' account may read no other Secret. No test runs beside it: the controller looks at all namespaces.
func TestRolesAreKept(t *testing.T) {
	in := installController(t, set("controller.roles=true"))
	log := in.starts(t, environment.AsShipped(t, "liveconfig-controller"))
	wide := `
metadata: {name: reader, namespace: TEAM}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]
`
	_, narrowed, _ := strings.Cut(narrow, "kind: Role")
	text := strings.ReplaceAll(triggered, wide, narrowed)
	if text == triggered {
		t.Fatal("the wide Role is not in the manifest")
	}
	in.applyText(t, strings.NewReplacer("TEAM", in.team, "TRIGGERS", "secret/password").Replace(text))
	var copied string
	wantSoon(t, log, "wait until the Deployment names the copy", func(ctx context.Context) (bool, error) {
		d, err := in.cluster.Client().AppsV1().Deployments(in.team).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		copied = d.Spec.Template.Spec.Volumes[1].CSI.VolumeAttributes["secret"]
		return copied != "password", nil
	})
	role, err := in.cluster.Client().RbacV1().Roles(in.team).Get(t.Context(), "reader", metav1.GetOptions{})
	if err != nil || !slices.Equal(role.Rules[0].ResourceNames, []string{"password", copied}) {
		t.Errorf("the Role names %v (%v), want the source and %s", role.Rules, err, copied)
	}
}

// roles are what a thief tries to widen: the owner's Role with two rules, and one without the annotation.
func (by *thief) roles(t *testing.T) {
	t.Helper()
	by.applyText(t, strings.NewReplacer("TEAM", by.team, "LONG", long()).Replace(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: kept
  namespace: TEAM
  labels: {a: b}
  annotations: {liveconfig.internal/copies-of: "secrets/foo, cm/LONG,secret/pods,secret/loose"}
rules:
  - {apiGroups: [""], resources: [secrets], resourceNames: [foo, foo-0123456789, other], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [configmaps], resourceNames: [LONG], verbs: [get]}
  - {apiGroups: [""], resources: [pods], resourceNames: [pods], verbs: [get]}
  - {apiGroups: [""], resources: [secrets], resourceNames: [loose], verbs: [get, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: plain, namespace: TEAM}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [foo], verbs: [get, list, watch]}]
`))
}

func (by *thief) patchRole(t *testing.T, name, operations string, options ...string) error {
	t.Helper()
	_, err := by.client.RbacV1().Roles(by.team).Patch(t.Context(), name, types.JSONPatchType, []byte("["+operations+"]"), metav1.PatchOptions{DryRun: options})
	return err
}

// names is an operation that sets the names of a rule.
func names(rule int, list ...string) string {
	return fmt.Sprintf(`{"op": "replace", "path": "/rules/%d/resourceNames", "value": ["%s"]}`, rule, strings.Join(list, `", "`))
}

// TestTheControllerMayOnlyNameCopiesInRoles tries what somebody could who has the controller's token, and every right in the
// namespace: what stops the thief is the policy.
func TestTheControllerMayOnlyNameCopiesInRoles(t *testing.T) {
	t.Parallel()
	by := newThief(t, "controller.roles=true")
	by.roles(t)
	awaitPolicy(t, func() error { return by.patchRole(t, "plain", names(0, "foo", "foo-0123456789"), metav1.DryRunAll) })
	const digits = "-0123456789"
	onlyNames, onlyCopies := "nothing of a Role's rules but resourceNames", "only add and remove names of copies"
	foo := []string{"foo", "foo" + digits, "other"}
	for what, test := range map[string]struct{ role, operations, want string }{
		"a Role without the annotation":     {"plain", names(0, "foo", "foo"+digits), "only change Roles with the annotation"},
		"another Secret":                    {"kept", names(0, append(foo, "admin")...), onlyCopies},
		"a copy of another Secret":          {"kept", names(0, append(foo, "admin"+digits)...), onlyCopies},
		"what only begins like a copy":      {"kept", names(0, append(foo, "foo"+digits+"a")...), onlyCopies},
		"a copy of a copy":                  {"kept", names(0, append(foo, "foo"+digits+digits)...), onlyCopies},
		"a wildcard":                        {"kept", names(0, append(foo, "*")...), onlyCopies},
		"every Secret":                      {"kept", `{"op": "remove", "path": "/rules/0/resourceNames"}`, onlyCopies},
		"every Secret, by no name":          {"kept", `{"op": "replace", "path": "/rules/0/resourceNames", "value": []}`, onlyCopies},
		"not the owner's name":              {"kept", names(0, "foo", "foo"+digits), onlyCopies},
		"not the source":                    {"kept", names(0, "foo"+digits, "other"), onlyCopies},
		"the copy of a Secret as ConfigMap": {"kept", names(1, long(), "foo"+digits), onlyCopies},
		"a rule for pods":                   {"kept", names(2, "pods", "pods"+digits), onlyCopies},
		"a rule that deletes":               {"kept", names(3, "loose", "loose"+digits), onlyCopies},
		"a verb":                            {"kept", `{"op": "add", "path": "/rules/0/verbs/-", "value": "delete"}`, onlyNames},
		"all verbs":                         {"kept", `{"op": "replace", "path": "/rules/0/verbs", "value": ["*"]}`, onlyNames},
		"another resource":                  {"kept", `{"op": "add", "path": "/rules/0/resources/-", "value": "pods"}`, onlyNames},
		"another group":                     {"kept", `{"op": "replace", "path": "/rules/0/apiGroups", "value": ["*"]}`, onlyNames},
		"a rule more":                       {"kept", `{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}}`, onlyNames},
		"a rule less":                       {"kept", `{"op": "remove", "path": "/rules/3"}`, onlyNames},
		"the annotation":                    {"kept", `{"op": "replace", "path": "/metadata/annotations/liveconfig.internal~1copies-of", "value": "secret/other"}`, "not change the metadata"},
		"a label":                           {"kept", `{"op": "remove", "path": "/metadata/labels"}`, "not change the metadata"},
		"a finalizer":                       {"kept", `{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}`, "not change the metadata"},
		"the annotation on a Role without":  {"plain", `{"op": "add", "path": "/metadata/annotations", "value": {"liveconfig.internal/copies-of": "secret/foo"}}`, "only change Roles with the annotation"},
	} {
		if err := by.patchRole(t, test.role, test.operations, metav1.DryRunAll); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("to write %s = %v, want an error with %q", what, err, test.want)
		}
	}
	by.wantNoOtherRoles(t)
	for what, operations := range map[string]string{
		"another copy":                  names(0, append(foo, "foo-abcdef0123")...),
		"a copy in place of another":    names(0, "foo", "foo-abcdef0123", "other"),
		"no copy":                       names(0, "foo", "other"),
		"a copy whose name is cut":      names(1, long(), long()[:241]+digits),
		"both":                          names(0, "foo", "other") + "," + names(1, long(), long()[:241]+digits),
		"what is there, in other order": names(0, "other", "foo", "foo"+digits),
	} {
		if err := by.patchRole(t, "kept", operations, metav1.DryRunAll); err != nil {
			t.Errorf("to write %s = %v", what, err)
		}
	}
	// Nobody else is held to that.
	if _, err := by.cluster.Client().RbacV1().Roles(by.team).Patch(t.Context(), "plain", types.JSONPatchType,
		[]byte("["+names(0, "foo", "admin")+"]"), metav1.PatchOptions{}); err != nil {
		t.Errorf("an administrator changes a Role: %v", err)
	}
}

// wantNoOtherRoles wants that the controller's account creates and deletes nothing of RBAC.
func (by *thief) wantNoOtherRoles(t *testing.T) {
	t.Helper()
	rbac := by.client.RbacV1()
	_, err := rbac.Roles(by.team).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Name: "new", Annotations: map[string]string{"liveconfig.internal/copies-of": "secret/foo"},
	}}, metav1.CreateOptions{})
	wantOnlyRoles(t, "create a Role", err)
	wantOnlyRoles(t, "delete a Role", rbac.Roles(by.team).Delete(t.Context(), "kept", metav1.DeleteOptions{}))
	wantOnlyRoles(t, "delete all Roles", rbac.Roles(by.team).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	_, err = rbac.RoleBindings(by.team).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kept"},
	}, metav1.CreateOptions{})
	wantOnlyRoles(t, "create a RoleBinding", err)
}

func wantOnlyRoles(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "the liveconfig controller may only update Roles") {
		t.Errorf("to %s = %v, want that the policy refuses it", what, err)
	}
}

// TestRBACHoldsTheControllerToo: without the rights of the thief, the API server's own check of escalation comes first. A Role
// that allows more than the controller may do itself stays as it is.
func TestRBACHoldsTheControllerToo(t *testing.T) {
	t.Parallel()
	in := installController(t, set("controller.roles=true"))
	by := &thief{in, in.clientOf(t)}
	by.roles(t)
	in.applyText(t, strings.NewReplacer("TEAM", in.team, "name: reader", "name: narrow").Replace(narrow))
	action := authorizationv1.ResourceAttributes{Namespace: in.team, Verb: "patch", Group: rbacv1.GroupName, Resource: "roles"}
	if err := in.cluster.AwaitAccess(t.Context(), cluster.ServiceAccountUser(in.namespace, in.namespace+"-controller"), action); err != nil {
		t.Fatal(err)
	}
	if err := by.patchRole(t, "narrow", names(0, "password", "password-0123456789")); err != nil {
		t.Errorf("to name a copy in a Role of the owner = %v", err)
	}
	err := by.patchRole(t, "kept", names(0, "foo", "other"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
		t.Errorf("to write a Role that allows to delete Secrets = %v, want that RBAC refuses it", err)
	}
	if _, err := by.client.CoreV1().Pods(in.team).Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("to create a pod = %v, want that it is forbidden: the test has the wrong account", err)
	}
}
