package fakenodes_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

func TestMain(m *testing.M) { os.Exit(fakenodes.ForMain(m)) }

// replicas is also the number of the nodes that the tests' stage has, so that each kind of workload has as many pods.
const replicas = 3

// variable distinguishes templates.
const variable = "VERSION"

// theatre is a namespace of the shared cluster.
type theatre struct {
	*testing.T
	*fakenodes.Nodes

	cluster   *cluster.Cluster
	namespace string
}

func open(t *testing.T) theatre {
	t.Helper()
	stage := fakenodes.ForTest(t)
	c := cluster.ForTest(t)
	return theatre{T: t, Nodes: stage, cluster: c, namespace: cluster.NewNamespace(t, c)}
}

// kubectl runs it in the namespace.
func (h theatre) kubectl(args ...string) string {
	h.Helper()
	printed, err := h.cluster.Kubectl(h.Context(), append([]string{"--namespace=" + h.namespace}, args...)...)
	if err != nil {
		h.Fatalf("%v; what happened:\n%s", err, h.Journal(h.namespace))
	}
	return printed
}

// rolled waits as a user does, and then for the nodes to have seen the same.
func (h theatre) rolled(workload, version string) {
	h.Helper()
	h.kubectl("rollout", "status", workload, "--timeout=90s")
	h.await(func(pods []*corev1.Pod) bool {
		return len(pods) == replicas && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return !fakenodes.IsReady(pod) || versionOf(pod) != version
		})
	})
}

func (h theatre) await(wanted func([]*corev1.Pod) bool) {
	h.Helper()
	if err := h.Await(h.Context(), h.namespace, wanted); err != nil {
		h.Fatal(err)
	}
}

func versionOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Env[0].Value }

// template is of version one.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "none", Env: []corev1.EnvVar{{Name: variable, Value: "one"}},
		}}},
	}
}

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: template().Labels} }

// deploy makes a Deployment of a template that gives up a rollout after some seconds.
func (h theatre) deploy(name string, spec appsv1.DeploymentSpec) {
	h.Helper()
	if spec.Replicas == nil {
		spec.Replicas = new(int32(replicas))
	}
	spec.Selector = selector()
	_, err := h.cluster.Client().AppsV1().Deployments(h.namespace).Create(h.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		h.Fatal(err)
	}
}

// makers make a workload of the name web.
func makers() map[string]func(theatre) error {
	meta := metav1.ObjectMeta{Name: "web"}
	return map[string]func(theatre) error{
		"deployment": func(h theatre) error {
			h.deploy(meta.Name, appsv1.DeploymentSpec{Template: template()})
			return nil
		},
		"statefulset": func(h theatre) error {
			_, err := h.cluster.Client().AppsV1().StatefulSets(h.namespace).Create(h.Context(), &appsv1.StatefulSet{
				ObjectMeta: meta,
				Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(replicas)), Selector: selector(), Template: template()},
			}, metav1.CreateOptions{})
			return err
		},
		"daemonset": func(h theatre) error {
			_, err := h.cluster.Client().AppsV1().DaemonSets(h.namespace).Create(h.Context(), &appsv1.DaemonSet{
				ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: template()},
			}, metav1.CreateOptions{})
			return err
		},
	}
}

// TestRolloutAndUndo: real kubectl and the real controllers take the played pods for running ones.
func TestRolloutAndUndo(t *testing.T) {
	t.Parallel()
	for kind, create := range makers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, workload := open(t), kind+"/web"
			if err := create(h); err != nil {
				t.Fatal(err)
			}
			h.rolled(workload, "one")
			begin := time.Now()
			h.kubectl("set", "env", workload, variable+"=two")
			h.rolled(workload, "two")
			h.kubectl("rollout", "undo", workload)
			h.rolled(workload, "one")

			journal := h.Journal(h.namespace)
			if got := journal.FewestReady(begin); got < replicas-1 {
				t.Errorf("at worst %d pods were ready, want %d; what happened:\n%s", got, replicas-1, journal)
			}
			var versions []string
			for _, e := range journal {
				if e.What == fakenodes.Created {
					versions = append(versions, versionOf(e.Pod))
				}
			}
			slices.Sort(versions)
			want := strings.Fields(strings.Repeat("one ", 2*replicas) + strings.Repeat("two ", replicas))
			if diff := cmp.Diff(want, versions); diff != "" {
				t.Errorf("versions of the pods that were made (-want +got):\n%s\n%s", diff, journal)
			}
			if got := strings.Count(h.kubectl("rollout", "history", workload), "<none>"); got != 2 {
				t.Errorf("the history has %d revisions, want 2", got)
			}
		})
	}
}

// TestFailingTemplateStalls: a rollout of pods that fail stops, and goes on when they do not fail any more.
func TestFailingTemplateStalls(t *testing.T) {
	t.Parallel()
	for kind, create := range makers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, workload := open(t), kind+"/web"
			if err := create(h); err != nil {
				t.Fatal(err)
			}
			h.rolled(workload, "one")
			begin := time.Now()
			h.SetFails(h.namespace, func(pod *corev1.Pod) error {
				if versionOf(pod) == "two" {
					return errors.New("it cannot read its settings")
				}
				return nil
			})
			h.kubectl("set", "env", workload, variable+"=two")
			h.await(func(pods []*corev1.Pod) bool { return slices.ContainsFunc(pods, crashes) })
			_, err := h.cluster.Kubectl(t.Context(), "--namespace="+h.namespace, "rollout", "status", workload, "--timeout=2s")
			if err == nil {
				t.Error("kubectl says that the rollout is complete")
			}
			if got := h.Journal(h.namespace).FewestReady(begin); got < replicas-1 {
				t.Errorf("at worst %d pods were ready, want %d", got, replicas-1)
			}
			h.SetFails(h.namespace, nil)
			h.rolled(workload, "two")
		})
	}
}

// crashes reports whether a pod is shown as one whose container crashes.
func crashes(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	return len(statuses) == 1 && statuses[0].State.Waiting != nil && statuses[0].State.Waiting.Reason == "CrashLoopBackOff"
}

func TestDeadlineOfADeploymentIsExceeded(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.SetFails(h.namespace, func(*corev1.Pod) error { return errors.New("it cannot read its settings") })
	h.deploy("web", appsv1.DeploymentSpec{Template: template(), ProgressDeadlineSeconds: new(int32(5))})
	_, err := h.cluster.Kubectl(t.Context(), "--namespace="+h.namespace, "rollout", "status", "deployment/web", "--timeout=60s")
	if err == nil || !strings.Contains(err.Error(), "exceeded its progress deadline") {
		t.Errorf("kubectl rollout status: error = %v, want that the deadline is exceeded", err)
	}
	got, err := h.cluster.Client().AppsV1().Deployments(h.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(got.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded"
	}) {
		t.Errorf("conditions = %v, want ProgressDeadlineExceeded", got.Status.Conditions)
	}
}

// TestRunningPodFailsAndRecovers: what a test says about pods holds for those that run too.
func TestRunningPodFailsAndRecovers(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.deploy("web", appsv1.DeploymentSpec{Template: template()})
	h.rolled("deployment/web", "one")
	first := h.Pods(h.namespace)[0].Name
	h.SetFails(h.namespace, func(pod *corev1.Pod) error {
		if pod.Name == first {
			return errors.New("it has run out of something")
		}
		return nil
	})
	h.await(func(pods []*corev1.Pod) bool { return crashes(pods[0]) })
	h.SetFails(h.namespace, nil)
	h.rolled("deployment/web", "one")
	var got []fakenodes.What
	for _, e := range h.Journal(h.namespace).Of(func(pod *corev1.Pod) bool { return pod.Name == first }) {
		got = append(got, e.What)
	}
	want := []fakenodes.What{fakenodes.Created, fakenodes.Ready, fakenodes.Unready, fakenodes.Ready}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what happened to the pod (-want +got):\n%s", diff)
	}
}

// TestGuardRequests: five hundred pods become ready and are removed, and the nodes asks for each what a kubelet and the
// scheduler would, and no more.
func TestGuardRequests(t *testing.T) {
	t.Parallel()
	const pods, most = 500, 4 // To bind, to read a ConfigMap, to say that it is ready, and to remove.
	h := open(t)
	begin := time.Now()
	h.configMap("web", "one")
	spec := template()
	spec.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("web")}}}
	h.deploy("web", appsv1.DeploymentSpec{Template: spec, Replicas: new(int32(pods))})
	h.await(func(all []*corev1.Pod) bool {
		ready := 0
		for _, pod := range all {
			if fakenodes.IsReady(pod) {
				ready++
			}
		}
		return ready == pods
	})
	t.Logf("%d pods were ready after %s", pods, time.Since(begin).Round(time.Millisecond))
	h.kubectl("scale", "deployment/web", "--replicas=0")
	h.await(func(all []*corev1.Pod) bool { return len(all) == 0 })
	t.Logf("and gone after %s", time.Since(begin).Round(time.Millisecond))

	requests, err := h.cluster.Requests(begin)
	if err != nil {
		t.Fatal(err)
	}
	counts, total := make(map[string]int), 0
	for _, r := range requests {
		if r.UserAgent != fakenodes.Agent || r.Namespace != h.namespace || r.Stage != "RequestReceived" {
			continue
		}
		total++
		counts[fmt.Sprintf("%s %s/%s", r.Verb, r.Resource, r.Subresource)]++
	}
	t.Attr("fakenodes/requests-per-pod", fmt.Sprintf("%.2f", float64(total)/pods))
	// Another's write may come in between now and then.
	if limit := most*pods + pods/10; total > limit || total < most*pods {
		t.Errorf("%d requests, want %d to %d: %v", total, most*pods, limit, counts)
	}
}
