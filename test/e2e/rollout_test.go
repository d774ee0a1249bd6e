package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// These are folders of examples that go with the controller, and that separate scripts go through.
const (
	releaseExample = "release"
	rolloutExample = "rollout"
	pluginExample  = "plugin"
)

// withController installs the rollout controller by the words of deploy/README.md, and takes it away after the test: the
// other tests expect nobody but the driver.
func (s *site) withController(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		remove := "helm upgrade liveconfig deploy/chart --namespace " + driverNamespace + " --reset-then-reuse-values --set controller.enabled=false"
		if _, err := s.Shell(ctx, remove); err != nil {
			t.Error(err)
			return
		}
		expect.Eventually(t, goneTimeout, func() error {
			pods, err := s.controllerPods(ctx)
			if err == nil && len(pods) > 0 {
				err = fmt.Errorf("%d pods of the controller are still there", len(pods))
			}
			return err
		})
	})
	expect.NoError(t, s.InstallController(t.Context()))
	pods, err := s.controllerPods(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("the controller's pods are %v, %v", pods, err)
	}
}

func (s *site) controllerPods(ctx context.Context) ([]corev1.Pod, error) {
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"}
	pods, err := s.Client().CoreV1().Pods(driverNamespace).List(ctx, selector)
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// walkThrough runs the script of an example, which itself checks the effect of each command, with programs of a folder in the
// PATH. It compares what the script prints with what the page shows.
func (e *example) walkThrough(t *testing.T, programs string) {
	t.Helper()
	if len(e.steps) != 1 {
		t.Fatalf("the section %s of %s has the commands %q, want the script alone", e.folder, examplesPage, e.steps)
	}
	printed := e.typeIn(t, fmt.Sprintf("export PATH=%q:$PATH\n", programs)+e.steps[0])
	if testing.Verbose() {
		t.Log(printed)
	}
	wantInOrder(t, printed, e.shown)
	e.wantNoNamespace(t, "liveconfig-"+e.folder)
}

// wantNoNamespace checks that a namespace is gone.
func (s *site) wantNoNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := s.Client().CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace %s of an example: %v, want it to be gone", name, err)
	}
}

// aRevision is a line of `kubectl rollout history`. With which number revisions begin depends on who was faster: Kubernetes,
// which makes one of the manifest, or the controller, which points it to a copy.
var aRevision = regexp.MustCompile(`^\d+ +<none>$`)

// differs matches what is another each time: moments, ages, versions of objects, names of pods, and how wide columns are.
var differs = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z|\b(\d+[hm])*\d+[smh]\b|\b\d{3,}\b|\b(web|api|limiter)-[a-z0-9]+-[a-z0-9]{5}\b| {2,}`)

func sameEachTime(text string) string { return differs.ReplaceAllString(text, " * ") }

// mayBeMissed is true for a state that lasts until a probe fails, which may be before `release status --watch` looks.
func mayBeMissed(line, next string) bool {
	return strings.Contains(line, " Progressing ") && strings.Contains(next, " Reverted ")
}

// wantInOrder wants that lines are printed, in this order, between others.
func wantInOrder(t *testing.T, printed string, lines []string) {
	t.Helper()
	if len(lines) < 20 {
		t.Errorf("the README shows %d lines of what the script prints, want more", len(lines))
	}
	all := strings.Split(sameEachTime(printed), "\n")
	for i, line := range lines {
		if aRevision.MatchString(line) || i+1 < len(lines) && mayBeMissed(line, lines[i+1]) {
			continue
		}
		at := slices.Index(all, sameEachTime(line))
		if at < 0 {
			t.Fatalf("the script does not print, where the README says so: %q; it goes on with\n%s", line, strings.Join(all, "\n"))
		}
		all = all[at+1:]
	}
}

// TestRevisionsHaveTheirConfigOnANode stops a rollout half-way and has pods of the old revision made again: they get the old
// config, whichever way they come by it. A Secret is read by the pods themselves, through the driver.
//
// Fault 34.
func TestRevisionsHaveTheirConfigOnANode(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.withController(t)
	r := &rollouts{site: s, namespace: s.namespace(t), configs: map[string]string{}}
	r.mayReadSecrets(t)
	r.edit(t, "first")
	if _, err := s.Client().AppsV1().Deployments(r.namespace).Create(t.Context(), r.deployment(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.wantPods(t, map[string]int{"first": 2})
	before := len(r.revisions(t))

	// A pod with this config never gets ready, so the old ones have to stay beside it.
	r.edit(t, "broken")
	for _, pod := range r.wantPods(t, map[string]int{"first": 2, "broken": 1}) {
		r.delete(t, pod)
	}
	r.wantPods(t, map[string]int{"first": 2, "broken": 1})
	if got, want := len(r.revisions(t)), before+1; got != want {
		t.Errorf("ReplicaSets = %d, want %d: a change of a ConfigMap and one of a Secret are one rollout", got, want)
	}

	r.edit(t, "mended")
	r.wantPods(t, map[string]int{"mended": 2})
	undo := "--to-revision=" + r.revisions(t)[r.configs["first"]]
	if _, err := s.Kubectl(t.Context(), "--namespace="+r.namespace, "rollout", "undo", "deployment/app", undo); err != nil {
		t.Fatal(err)
	}
	r.wantPods(t, map[string]int{"first": 2})
}

// rollouts are of one Deployment, app, with a ConfigMap and a Secret of that name, which have the same word.
type rollouts struct {
	*site

	namespace string
	// configs has the annotation of a pod template by the word in its copies.
	configs map[string]string
}

// wantPods waits until that many pods have each word and there are no others, and returns them. No pod may ever hear two
// words, nor any other word than the first that a pod with the same copies has heard.
func (r *rollouts) wantPods(t *testing.T, want map[string]int) []*corev1.Pod {
	t.Helper()
	var found []*corev1.Pod
	expect.Eventually(t, startTimeout, func() error {
		pods, err := r.Client().CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		found = nil
		got := map[string]int{}
		for _, pod := range pods.Items {
			word, err := r.word(t, &pod)
			if err != nil {
				return err
			}
			got[word]++
			found = append(found, &pod)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("pods by what they say (-want +got):\n%s", diff)
		}
		return nil
	})
	return found
}

// word returns the word of a pod, or why that is not known.
func (r *rollouts) word(t *testing.T, pod *corev1.Pod) (string, error) {
	t.Helper()
	config := pod.Annotations["liveconfig.internal/config"]
	if config == "" || pod.DeletionTimestamp != nil {
		return "", fmt.Errorf("pod %s is of a revision without copies, or is going", pod.Name)
	}
	const all = `for file in ` + mountPath + `/word ` + mountPath + `/secret /map/word /secret/word; do cat $file; echo; done; echo $MAP_word; echo $SECRET_word`
	out, err := r.Exec(t.Context(), pod, "", "sh", "-c", all)
	if err != nil {
		return "", err
	}
	words := strings.Fields(out)
	if len(words) != 6 || len(slices.Compact(words)) != 1 {
		t.Fatalf("pod %s says %q, want the same six times", pod.Name, out)
	}
	if known, ok := r.configs[words[0]]; ok && known != config {
		t.Fatalf("pod %s of config %s says %s, which is the word of %s", pod.Name, config, words[0], known)
	}
	r.configs[words[0]] = config
	return words[0], nil
}

// revisions returns the numbers of the Deployment's revisions by their config.
func (r *rollouts) revisions(t *testing.T) map[string]string {
	t.Helper()
	list, err := r.Client().AppsV1().ReplicaSets(r.namespace).List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	numbers := map[string]string{}
	for _, set := range list.Items {
		config := set.Spec.Template.Annotations["liveconfig.internal/config"]
		if before, found := numbers[config]; found {
			t.Errorf("revisions %s and %s have the same config %q", before, set.Annotations["deployment.kubernetes.io/revision"], config)
		}
		numbers[config] = set.Annotations["deployment.kubernetes.io/revision"]
	}
	return numbers
}

// mayReadSecrets lets the pods read Secrets by whatever name, which copies need.
func (r *rollouts) mayReadSecrets(t *testing.T) {
	t.Helper()
	rbac := r.Client().RbacV1()
	meta := metav1.ObjectMeta{Name: "read-secrets"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}
	_, errOfRole := rbac.Roles(r.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, errOfBinding := rbac.RoleBindings(r.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: r.namespace}},
	}, metav1.CreateOptions{})
	expect.NoError(t, errors.Join(errOfRole, errOfBinding))
}

// edit writes a word into both objects.
func (r *rollouts) edit(t *testing.T, word string) {
	t.Helper()
	r.putConfigMap(t, r.namespace, "app", map[string]string{"word": word})
	secrets := r.Client().CoreV1().Secrets(r.namespace)
	secret := fixture.Secret("app", map[string]string{"word": word})
	_, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	}
	expect.NoError(t, err)
}

// deployment is one whose pods get the word in six ways, and are not ready with one word.
func (r *rollouts) deployment() *appsv1.Deployment {
	pod := boxPod(r.namespace, "", map[string]string{"sources": `[{configMap: {name: app}}, {secret: {name: app, items: [{key: word, path: secret}]}}]`})
	main := &pod.Spec.Containers[0]
	reference := corev1.LocalObjectReference{Name: "app"}
	main.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "MAP_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference}},
		{Prefix: "SECRET_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference}},
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}}},
		corev1.Volume{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "app"}}})
	main.VolumeMounts = append(main.VolumeMounts,
		corev1.VolumeMount{Name: "map", MountPath: "/map"}, corev1.VolumeMount{Name: "secret", MountPath: "/secret"})
	main.ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "! grep broken " + mountPath + "/word"}}},
	}
	labels := map[string]string{"app": "app"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Annotations: map[string]string{"liveconfig.internal/triggered-by": "configmap/app,secret/app"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}
