package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// TestUndoOfWhatChangesMeanwhile: between what the plugin has read and what it writes somebody else writes, once. The undo is
// decided again and loses nothing of that; where somebody always does, it ends and reports that.
func TestUndoOfWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		others int64
		fails  bool
	}{
		"once":      {others: 1},
		"thrice":    {others: 3},
		"all along": {others: 1000, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.ForTest(t)
			namespace := cluster.NewNamespace(t, c)
			history(t, c, namespace)
			var writes atomic.Int64
			kubeconfig := before(t, c, func(r *http.Request) {
				if r.Method != http.MethodPatch || writes.Add(1) > test.others {
					return
				}
				label := fmt.Appendf(nil, `{"metadata":{"labels":{"other":"%d"}}}`, writes.Load())
				_, err := c.Client().AppsV1().Deployments(namespace).Patch(r.Context(), "web", types.MergePatchType, label, metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
			})
			out, err := exec.CommandContext(t.Context(), program,
				"rollout", "undo", "deployment/web", "--kubeconfig="+kubeconfig, "--namespace="+namespace).CombinedOutput()
			is, getErr := c.Client().AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if getErr != nil {
				t.Fatal(getErr)
			}
			image := is.Spec.Template.Spec.Containers[0].Image
			switch {
			case test.fails && (err == nil || !strings.Contains(string(out), "object has been modified") || image != "web:2"):
				t.Errorf("it ends with %v and the pods run %s, want a conflict and web:2:\n%s", err, image, out)
			case !test.fails && (err != nil || image != "web:1" || is.Labels["other"] != fmt.Sprint(test.others)):
				t.Errorf("it ends with %v, the pods run %s and the labels are %v, want web:1 and all that others wrote:\n%s", err, image, is.Labels, out)
			case !test.fails && strings.Count(string(out), "rolled back to revision 1") != 1:
				t.Errorf("it does not report once what it did:\n%s", out)
			}
		})
	}
}

// history makes a Deployment with two revisions, of which the second is current.
func history(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	template := func(number string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:" + number}}},
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d, err := c.Client().AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template("2")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []string{"1", "2"} {
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web-" + number, Labels: map[string]string{"app": "web"},
				Annotations:     map[string]string{"deployment.kubernetes.io/revision": number},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
			},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector, Template: template(number)},
		}
		if _, err := c.Client().AppsV1().ReplicaSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// before returns a kubeconfig of a cluster administrator, by a way on which something is done before each request.
func before(t *testing.T, c *cluster.Cluster, do func(*http.Request)) string {
	t.Helper()
	admin := c.AdminConfig()
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["way"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["way"] = &clientcmdapi.Context{Cluster: "way"}
	config.CurrentContext = "way"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
