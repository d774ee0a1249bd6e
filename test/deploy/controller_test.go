package deploy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// installed is a controller's part of the chart, applied in a namespace and under a separate release name.
type installed struct {
	cluster   *cluster.Cluster
	namespace string
	// team is a namespace with workloads, which the controller is for, and other is one that it may not be for.
	team, other string
}

// controllerModes are the ways to install a controller that its rights depend on. TEAM is the team's namespace.
func controllerModes() map[string][]string {
	return map[string][]string{
		"everywhere": nil,
		"everywhere where the driver reads Secrets":   set("identity.secrets=driver"),
		"everywhere without Secrets":                  set("controller.secrets=false"),
		"everywhere as a dry run":                     set("controller.dryRun=true"),
		"everywhere with Roles":                       set("controller.roles=true"),
		"in one namespace":                            set("controller.namespaces={TEAM}"),
		"in one namespace with Roles":                 set("controller.namespaces={TEAM}", "controller.roles=true"),
		"in one namespace where the driver reads all": set("controller.namespaces={TEAM}", "identity.secrets=driver"),
		"in one namespace without Secrets":            set("controller.namespaces={TEAM}", "controller.secrets=false"),
	}
}

func installController(t *testing.T, args []string) *installed {
	t.Helper()
	c := cluster.ForTest(t)
	in := &installed{cluster: c, namespace: cluster.NewNamespace(t, c), team: cluster.NewNamespace(t, c), other: cluster.NewNamespace(t, c)}
	command := []string{"template", in.namespace, "deploy/chart", "--namespace", in.namespace, "--kube-version", "1.35.0", "--set", "controller.enabled=true"}
	for _, arg := range args {
		command = append(command, strings.ReplaceAll(arg, "TEAM", in.team))
	}
	out, err := helm(t, slices.Concat(command, image())...)
	in.apply(t, wantDone(t, out, err))
	return in
}

// apply applies what is the controller's of the chart's objects.
func (in *installed) apply(t *testing.T, text string) {
	t.Helper()
	var own []string
	for key, object := range objects(t, text) {
		if !strings.Contains(key, in.namespace+"-controller") {
			continue
		}
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, string(document))
	}
	in.applyText(t, strings.Join(own, "---\n"))
}

func (in *installed) applyText(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.cluster.Apply(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

func (in *installed) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := in.cluster.Client().AppsV1().Deployments(in.namespace).Get(t.Context(), in.namespace+"-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// rights returns what a service account of the controller's namespace may do in a namespace, by the API server's answer.
func (in *installed) rights(t *testing.T, account, where string) map[string]string {
	t.Helper()
	config, err := in.cluster.ServiceAccountConfig(t.Context(), in.namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: where}}
	answer, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status.Incomplete {
		t.Fatalf("the API server does not know all rules: %s", answer.Status.EvaluationError)
	}
	return granted(answer.Status.ResourceRules)
}

// granted has the verbs for each resource, and for each object that a rule names.
func granted(rules []authorizationv1.ResourceRule) map[string]string {
	found := map[string]string{}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		verbs := strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					found[strings.Trim(group+"/"+resource+"/"+name, "/")] = verbs
				}
			}
		}
	}
	return found
}

// wantRights wants that the controller may do that in a namespace, and nothing more than every service account may.
func (in *installed) wantRights(t *testing.T, where string, want map[string]string) {
	t.Helper()
	everybody := in.rights(t, "default", where)
	var diff string
	// The API server learns of roles a moment after it has taken them.
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		got := in.rights(t, in.namespace+"-controller", where)
		for resource := range everybody {
			delete(got, resource)
		}
		diff = cmp.Diff(want, got)
		return diff == "", nil
	})
	if err != nil {
		t.Errorf("rights in the namespace (-want +got):\n%s", diff)
	}
}

const (
	reads  = "get list watch"
	writes = "create delete get list patch watch"
)

// rightsInNamespace are those of a mode, where the controller works.
func rightsInNamespace(mode string) map[string]string {
	want := map[string]string{
		"apps/deployments": "get list patch watch", "apps/statefulsets": "get list patch watch", "apps/daemonsets": "get list patch watch",
		"apps/replicasets": "delete get list watch", "apps/controllerrevisions": "delete get list watch",
		"configmaps": writes, "secrets": writes, "events": "create patch",
	}
	switch {
	case strings.HasSuffix(mode, "without Secrets"):
		delete(want, "secrets")
	case strings.HasSuffix(mode, "as a dry run"):
		delete(want, "events")
		for resource := range want {
			want[resource] = reads
		}
	case !strings.Contains(mode, "where the driver reads"):
		want["authorization.k8s.io/localsubjectaccessreviews"] = "create"
	}
	if strings.HasSuffix(mode, "with Roles") {
		want["rbac.authorization.k8s.io/roles"] = "get list patch watch"
	}
	if !strings.HasSuffix(mode, "without releases") {
		want["pods"] = "list watch"
	}
	return want
}

// TestControllerMayDoThatAndNothingMore compares what the API server lets the account do with what it is to do.
func TestControllerMayDoThatAndNothingMore(t *testing.T) {
	t.Parallel()
	for mode, args := range controllerModes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			in := installController(t, args)
			want := rightsInNamespace(mode)
			in.wantRights(t, in.team, want)
			if strings.HasPrefix(mode, "in one namespace") {
				clear(want)
			}
			in.wantRights(t, in.other, want)
			// The API server returns two rules for one resource as it has them: of any lease, and of the controller's. Of pods, the last
			// one is that for asking drivers.
			want["coordination.k8s.io/leases"] = "create"
			want["coordination.k8s.io/leases/"+in.namespace+"-controller"] = "get update"
			if !strings.HasSuffix(mode, "as a dry run") {
				want["pods"], want["pods/portforward"] = "list", "create"
			}
			in.wantRights(t, in.namespace, want)
		})
	}
}

// TestControllerIsRestricted: its pods may run where Pod Security's strictest profile is enforced.
func TestControllerIsRestricted(t *testing.T) {
	t.Parallel()
	in := installController(t, nil)
	if _, err := in.cluster.Kubectl(t.Context(), "label", "namespace", in.namespace, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		t.Fatal(err)
	}
	template := in.deployment(t).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = "controller"
	pods := in.cluster.Client().CoreV1().Pods(in.namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := pods.Create(t.Context(), pod, dryRun); err != nil {
		t.Errorf("the pod is refused: %v", err)
	}
	privileged := true
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
	if _, err := pods.Create(t.Context(), pod, dryRun); !apierrors.IsForbidden(err) {
		t.Errorf("a privileged pod: %v, want that it is forbidden, or nothing was checked", err)
	}
}
