package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// plugin runs `kubectl liveconfig` in a namespace.
type plugin struct {
	*site

	namespace string
}

// result is what a run of the plugin prints, and the status that it ends with.
type result struct {
	out, err string
	status   int
}

func (p plugin) call(t *testing.T, args ...string) result {
	t.Helper()
	var errOut bytes.Buffer
	return p.callTo(t, &errOut, errOut.String, args...)
}

// callTo is call with errors and remarks for another user, for the end.
func (p plugin) callTo(t *testing.T, errOut io.Writer, text func() string, args ...string) result {
	t.Helper()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	expect.NoError(t, p.WriteAdminKubeconfig(kubeconfig))
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: errOut}
	all := slices.Concat(args, []string{"--kubeconfig=" + kubeconfig, "--cache-dir=" + home, "--namespace=" + p.namespace})
	s := result{status: cli.Run(t.Context(), streams, all...), out: out.String(), err: text()}
	if testing.Verbose() {
		t.Logf("kubectl liveconfig %s\n%s%sexit %d", strings.Join(args, " "), s.out, s.err, s.status)
	}
	return s
}

// begin starts a run, and returns after its first remark. The channel gets what comes of it.
func (p plugin) begin(t *testing.T, args ...string) <-chan result {
	t.Helper()
	reader, writer := io.Pipe()
	remarks := bufio.NewReader(reader)
	done := make(chan result, 1)
	go func() {
		s := p.callTo(t, writer, func() string { return "" }, args...)
		_ = writer.Close() // Pipes have no errors.
		done <- s
	}()
	first, err := remarks.ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl liveconfig %s has no remark: %v", strings.Join(args, " "), err)
	}
	t.Log(first)
	go func() { _, _ = io.Copy(io.Discard, remarks) }() // Nobody reads it, and it must not hold the run up.
	return done
}

// want checks the status of a run, and that it prints some words, each in one line and in this order of columns.
func (s result) want(t *testing.T, status int, rows ...string) {
	t.Helper()
	if s.status != status {
		t.Errorf("exit %d, want %d\n%s%s", s.status, status, s.out, s.err)
	}
	text := strings.Join(strings.Fields(s.out+s.err), " ")
	for _, row := range rows {
		if !strings.Contains(text, row) {
			t.Errorf("it does not print %q, but\n%s%s", row, s.out, s.err)
		}
	}
}

// TestStatusAndWaitOnANode has the plugin ask the driver of a real node, through the API server and the kubelet, which versions
// pods have: all the newest, after an edit too, and not where a volume is stuck. A user who may not ask gets an error.
func TestStatusAndWaitOnANode(t *testing.T) {
	s := on(t, realnode.Containerd2())
	p := plugin{site: s, namespace: s.namespace(t)}
	s.putConfigMap(t, p.namespace, "app", map[string]string{"file": "1"})
	s.putConfigMap(t, p.namespace, "gone", map[string]string{"other": "1"})
	p.deploy(t)
	odd := s.start(t, boxPod(p.namespace, "odd", map[string]string{"sources": `[{configMap: {name: app}}, {configMap: {name: gone}}]`}))
	expect.Eventually(t, startTimeout, func() error {
		if got := p.call(t, "status", "deployment/web"); got.status != 0 || !strings.Contains(got.out, "2 of 2") {
			return fmt.Errorf("exit %d\n%s%s", got.status, got.out, got.err)
		}
		return nil
	})
	p.call(t, "status", "deployment/web", "pod/odd").want(t, 0,
		"deployments/web config configmap/app "+p.version(t)+" 2 of 2 pods/odd config configmap/app "+p.version(t)+" 1 of 1")
	p.wantJSON(t, 2)

	s.putConfigMap(t, p.namespace, "app", map[string]string{"file": "2"})
	p.wantWaited(t, "2")
	p.wantJSON(t, 2)

	// One required source that is gone freezes a volume, also for the others.
	expect.NoError(t, s.Client().CoreV1().ConfigMaps(p.namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	s.wantEvent(t, odd, "SourceMissing", "gone")
	before := p.version(t)
	s.putConfigMap(t, p.namespace, "app", map[string]string{"file": "3"})
	p.wantWaited(t, "3")
	p.call(t, "status", "deployment/web", "pod/odd").want(t, 2,
		"configmap/app "+p.version(t)+" 2 of 2", "configmap/app "+p.version(t)+" 0 of 1", "configmap/gone - 0 of 1",
		"odd "+odd.Spec.NodeName+" config configmap/app "+before, `configmap "gone" not found`, "error: 1 of 3 pods do not have the newest of all")
	if got := p.call(t, "status", "deployment/web", "pod/odd", "-o", "name"); got.out != "pod/odd\n" {
		t.Errorf("status -o name prints %q, want the pod that lags", got.out)
	}
	p.call(t, "wait", "pod/odd", "--for=projected=configmap/app", "--timeout=10s").want(t, 1,
		"timed out after 10s: 0 of 1 running pods have configmap/app at version "+p.version(t)+" or later; pod odd on node "+odd.Spec.NodeName+
			": configmap/app: it has "+before+":", `configmap "gone" not found`)

	// A later version than the one that was waited for is as good.
	waiting := p.begin(t, "wait", "pod/odd", "--for=projected=configmap/app", "--timeout=60s")
	s.putConfigMap(t, p.namespace, "app", map[string]string{"file": "4"})
	s.putConfigMap(t, p.namespace, "gone", map[string]string{"other": "2"})
	(<-waiting).want(t, 0, "pods/odd: 1 of 1 running pods have configmap/app at version ")
	if got := p.exec(t, odd, "cat", mountPath+"/file"); got != "4" {
		t.Errorf("the pod has %q after the wait, want 4, as 3 never was in its files", got)
	}

	p.wantForOthers(t)
}

// deploy makes a Deployment of two pods that show a ConfigMap.
func (p plugin) deploy(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	pod := boxPod(p.namespace, "", map[string]string{"configMap": "app"})
	if _, err := p.Client().AppsV1().Deployments(p.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// version is that of the ConfigMap.
func (p plugin) version(t *testing.T) string {
	t.Helper()
	object, err := p.Client().CoreV1().ConfigMaps(p.namespace).Get(t.Context(), "app", metav1.GetOptions{})
	expect.NoError(t, err)
	return object.ResourceVersion
}

// wantJSON wants the pods of the Deployment to be current by what is printed for programs.
func (p plugin) wantJSON(t *testing.T, pods int) {
	t.Helper()
	var got []struct {
		Sources []struct {
			Version string
			Current int
			Pods    []struct{ State, Has string }
		}
	}
	text := p.call(t, "status", "deployment/web", "-o", "json")
	if err := json.Unmarshal([]byte(text.out), &got); err != nil {
		t.Fatalf("%v in %s%s", err, text.out, text.err)
	}
	if len(got) != 1 || len(got[0].Sources) != 1 {
		t.Fatalf("status = %+v, want one workload with one source", got)
	}
	source, version := got[0].Sources[0], p.version(t)
	if source.Version != version || source.Current != pods || len(source.Pods) != pods {
		t.Errorf("source = %+v, want version %s in %d pods", source, version, pods)
	}
	for _, pod := range source.Pods {
		if pod.State != "Current" || pod.Has != version {
			t.Errorf("pod = %+v, want it to have version %s", pod, version)
		}
	}
}

// wantWaited waits for an edit, and then wants it to be in all files without any more waiting.
func (p plugin) wantWaited(t *testing.T, want string) {
	t.Helper()
	begin := time.Now()
	p.call(t, "wait", "deployment/web", "--for=projected=configmap/app", "--timeout=60s").want(t, 0,
		"deployments/web: 2 of 2 running pods have configmap/app at version "+p.version(t)+" or later")
	if took := time.Since(begin); took > changeTimeout {
		t.Errorf("an edit was waited for for %s, want no more than the driver takes", took)
	}
	pods, err := p.Client().CoreV1().Pods(p.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("pods = %v, %v, want two", pods, err)
	}
	for _, pod := range pods.Items {
		if got := p.exec(t, &pod, "cat", mountPath+"/file"); got != want {
			t.Errorf("pod %s has %q after the wait, want %q", pod.Name, got, want)
		}
	}
}

// wantForOthers wants an error for a user who may only see the workload. It names the right that is missing to ask its nodes, and that the rights
// that the README names are enough.
func (p plugin) wantForOthers(t *testing.T) {
	t.Helper()
	user := "--as=system:serviceaccount:" + p.namespace + ":default"
	p.allow(t, p.namespace,
		rbacv1.PolicyRule{APIGroups: []string{"", "apps"}, Resources: []string{"deployments", "replicasets", "pods", "configmaps"}, Verbs: []string{"get", "list"}})
	var got result
	expect.Eventually(t, changeTimeout, func() error { // The API server learns of Roles a moment after it has taken them.
		if got = p.call(t, "status", "deployment/web", user); !strings.Contains(got.out, "2 unknown") {
			return fmt.Errorf("it prints\n%s%s", got.out, got.err)
		}
		return nil
	})
	got.want(t, 1, "configmap/app "+p.version(t)+" 0 of 2, 2 unknown",
		"you may not look for its pod, which takes the verb list on pods in namespace liveconfig-system; see kubectl -n liveconfig-system auth can-i list pods")
	p.allow(t, "liveconfig-system",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}})
	expect.Eventually(t, changeTimeout, func() error {
		if got = p.call(t, "status", "deployment/web", user); got.status != 0 {
			return fmt.Errorf("exit %d\n%s%s", got.status, got.out, got.err)
		}
		return nil
	})
	got.want(t, 0, "configmap/app "+p.version(t)+" 2 of 2")
}

// allow gives rights in a namespace to the test's default service account, until the test ends.
func (p plugin) allow(t *testing.T, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	rbac := p.Client().RbacV1()
	meta := metav1.ObjectMeta{Name: "of-" + p.namespace}
	if _, err := rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := p.Kubectl(context.Background(), "--namespace="+namespace, "delete", "role,rolebinding", meta.Name)
		if err != nil {
			t.Error(err)
		}
	})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: p.namespace}},
	}
	if _, err := rbac.RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
