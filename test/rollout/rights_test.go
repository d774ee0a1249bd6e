package rollout

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// limit gives the site's controller an account that may do what deploy/controller lets it, but in the site's namespace only
// and nothing with some resources. It returns the account's user name. The controller must not run yet.
func (s *site) limit(without ...string) string {
	s.t.Helper()
	ctx := s.t.Context()
	installed, err := s.client.RbacV1().ClusterRoles().Get(ctx, "liveconfig-controller-in-namespace", metav1.GetOptions{})
	expect.NoError(s.t, err)
	for i := range installed.Rules {
		rule := &installed.Rules[i]
		rule.Resources = slices.DeleteFunc(rule.Resources, func(resource string) bool { return slices.Contains(without, resource) })
	}
	rules := slices.DeleteFunc(installed.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Resources) == 0 })
	expect.NoError(s.t, s.c.EnsureServiceAccount(ctx, s.namespace, "controller"))
	s.allow("controller", rules...)
	user := cluster.ServiceAccountUser(s.namespace, "controller")
	action := authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "watch", Group: "apps", Resource: "deployments"}
	expect.NoError(s.t, s.c.AwaitAccess(ctx, user, action))
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	expect.NoError(s.t, s.c.WriteServiceAccountKubeconfig(ctx, kubeconfig, s.namespace, "controller"))
	s.args = append(s.args, "--kubeconfig="+kubeconfig)
	return user
}

// allow lets a service account of the namespace do something there, and nothing else that was allowed in this way before.
func (s *site) allow(account string, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Name: account}
	rbac := s.client.RbacV1()
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	_, err := rbac.Roles(s.namespace).Create(s.t.Context(), role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = rbac.Roles(s.namespace).Update(s.t.Context(), role, metav1.UpdateOptions{})
	}
	expect.NoError(s.t, err)
	_, err = rbac.RoleBindings(s.namespace).Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

// askedBy returns what a user has asked the API server for since a moment, in the namespaces of resources.
func (s *site) askedBy(user string, since time.Time) []cluster.Request {
	s.t.Helper()
	all, err := s.c.Requests(since)
	expect.NoError(s.t, err)
	return slices.DeleteFunc(all, func(r cluster.Request) bool { return r.User != user || r.Resource == "" })
}

// TestOneNamespace has a controller of one namespace work with rights in that one, and ask for nothing of any other.
func TestOneNamespace(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := newIdleSite(t)
	user := s.limit()
	other := *s
	other.namespace = cluster.NewNamespace(t, s.c)
	for _, in := range []*site{s, &other} {
		in.putConfigMap("foo", "one")
		in.key("one")
		in.apply(manifest("deployment", "web", "configmap/foo}", `"configmap/foo,secret/key"}`,
			"configMap: {name: foo}", "projected: {sources: [{configMap: {name: foo}}, {secret: {name: key, items: [{key: config, path: key}]}}]}"))
	}
	s.start()
	s.follows("web", "configmap/foo", "secret/key")
	s.key("two")
	s.putConfigMap("foo", "two")
	s.follows("web", "configmap/foo", "secret/key")
	s.event("ConfigMap/foo", rollout.ReasonRolledOut, "deployment/web")

	requests := s.askedBy(user, begin)
	if len(requests) == 0 {
		t.Fatal("the audit log has no request of the controller")
	}
	for _, r := range requests {
		if r.Namespace != s.namespace {
			t.Errorf("the controller of %s asked: %s", s.namespace, r)
		}
	}
	if d := other.deployment("web"); d.Generation != 1 {
		t.Errorf("the Deployment of the other namespace was written: %v", d.ManagedFields)
	}
}

// TestWithoutSecrets has a controller that is to keep away from Secrets never ask for one, and report that to workloads that are triggered by
// one. All else works.
func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := newIdleSite(t, "--secrets=false")
	user := s.limit("secrets", "localsubjectaccessreviews")
	s.key("one")
	s.putConfigMap("foo", "one")
	s.apply(triggered("key", "secret/key"))
	s.apply(manifest("deployment", "web", "configMap: {name: foo}", "projected: {sources: [{configMap: {name: foo}}, {secret: {name: key}}]}"))
	s.start()
	s.follows("web", "configmap/foo")
	s.event("Deployment/key", rollout.ReasonHeldBack, "secret/key: the controller runs with --secrets=false")
	s.putConfigMap("foo", "two")
	s.key("two")
	s.follows("web", "configmap/foo")
	if d := s.deployment("key"); d.Generation != 1 || d.Labels[trigger.RolloutLabel] != "" {
		t.Errorf("the Deployment that is triggered by a Secret was written: %v", d.ManagedFields)
	}
	for _, r := range s.askedBy(user, begin) {
		if strings.Contains(r.Resource, "secrets") || strings.Contains(r.Resource, "reviews") || r.Code >= 400 && r.Code != http.StatusConflict {
			t.Errorf("the controller asked: %s", r)
		}
	}
}

// secretVolume are texts for manifest that make the volume one of liveconfig's, with a Secret.
func secretVolume() []string {
	return []string{
		"configmap/foo}", "secret/key}", "configMap: {name: foo}",
		"csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {secret: key}}",
	}
}

// TestPodsMustMayReadCopies has a change wait while the pods, by whose rights the driver reads Secrets, may not read the
// copy, and roll out when they may.
//
// Fault 35.
func TestPodsMustMayReadCopies(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := newIdleSite(t)
	user := s.limit()
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	named := read
	named.ResourceNames = []string{"key"}
	expect.NoError(t, s.c.EnsureServiceAccount(t.Context(), s.namespace, "web"))
	s.allow("web", named)
	s.key("one")
	s.apply(manifest("deployment", "web", append(secretVolume(), "      containers:", "      serviceAccountName: web\n      containers:")...))
	s.start()
	s.event("Deployment/web", rollout.ReasonHeldBack, "give it a Role for secrets without resourceNames, or use a volume of type secret")
	if got := s.deployment("web").Generation; got != 1 {
		t.Errorf("the generation is %d while pods may not read the copy, want 1", got)
	}
	s.allow("web", read)
	granted := time.Now()
	s.follows("web", "secret/key")
	if took := time.Since(granted); took > 20*time.Second { // The controller asks every three seconds.
		t.Errorf("the change was rolled out %s after the Role was granted, want a few seconds", took)
	}
	s.key("two")
	s.follows("web", "secret/key")
	if reviews := s.reviews(user, begin); reviews < 3 {
		t.Errorf("the controller asked %d times whether pods may read copies, want at least 3", reviews)
	}
}

// reviews returns how many times a user has asked for somebody's rights.
func (s *site) reviews(user string, since time.Time) int {
	s.t.Helper()
	count := 0
	for _, r := range s.askedBy(user, since) {
		if strings.HasSuffix(r.Resource, "subjectaccessreviews") && r.Stage == cluster.StageComplete {
			count++
		}
	}
	return count
}

// TestDriverReadsCopies has nobody asked about the pods' rights where the driver reads Secrets by its own.
func TestDriverReadsCopies(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := newIdleSite(t, "--secret-identity=driver")
	user := s.limit()
	s.key("one")
	s.apply(manifest("deployment", "web", secretVolume()...))
	s.start()
	s.follows("web", "secret/key")
	if reviews := s.reviews(user, begin); reviews != 0 {
		t.Errorf("the controller asked %d times whether pods may read copies, want never", reviews)
	}
}

// TestControllerThatMayNotAsk has a controller that may not ask for the pods' rights print what it needs.
func TestControllerThatMayNotAsk(t *testing.T) {
	t.Parallel()
	s := newIdleSite(t)
	s.limit("localsubjectaccessreviews")
	s.key("one")
	s.apply(manifest("deployment", "web", secretVolume()...))
	s.start()
	s.event("Deployment/web", rollout.ReasonHeldBack, "the controller may not ask whether service account default may get secret key-")
}

// TestThePolicyAboutWorkloadsIsInForce has somebody make a copy whose name is not that of a copy. The controller may not
// point a workload from that to the real one, and reports it on the workload.
func TestThePolicyAboutWorkloadsIsInForce(t *testing.T) {
	t.Parallel()
	s := newIdleSite(t)
	s.putConfigMap("foo", "one")
	s.apply(`{apiVersion: v1, kind: ConfigMap, immutable: true, data: {config: zero}, metadata: {name: odd,
  labels: {liveconfig.internal/copy-of: foo}, annotations: {liveconfig.internal/source: configmap/foo}}}`)
	s.apply(manifest("deployment", "web", "configMap: {name: foo}", "configMap: {name: odd}"))
	s.eventually(func() error { // The API server learns of a policy a moment after it has taken it.
		_, err := s.c.Kubectl(t.Context(), "--as="+cluster.ServiceAccountUser("liveconfig-system", "liveconfig-controller"),
			"-n", s.namespace, "label", "deployment/web", "a=b", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "may change no label") {
			return fmt.Errorf("to label the workload as the controller: %w, want that the policy refuses it", err)
		}
		return nil
	})
	s.start()
	s.event("Deployment/web", rollout.ReasonHeldBack, "only replace the name of a source by that of a copy of the same source")
	if got := s.deployment("web").Generation; got != 1 {
		t.Errorf("the generation is %d, want 1", got)
	}
	s.apply(manifest("deployment", "web"))
	s.follows("web", "configmap/foo")
}
