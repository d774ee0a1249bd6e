package rollout

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// manifest is deployment for any kind of workload, with texts replaced in pairs.
func manifest(kind, name string, replaced ...string) string {
	text := deployment(name)
	switch kind {
	case "statefulset":
		text = strings.NewReplacer("kind: Deployment", "kind: StatefulSet", "  progressDeadlineSeconds: 600\n", "").Replace(text)
	case "daemonset":
		text = strings.NewReplacer("kind: Deployment", "kind: DaemonSet", "  progressDeadlineSeconds: 600\n", "", "  replicas: 2\n", "").Replace(text)
	}
	return strings.NewReplacer(replaced...).Replace(text)
}

// annotated are texts for manifest that give the workload further annotations.
func annotated(annotations string) (old, now string) {
	return "triggered-by: configmap/foo}", "triggered-by: configmap/foo, " + annotations + "}"
}

// edit changes the one key of a ConfigMap, faster than kubectl could.
func (s *site) edit(name, value string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"data":{"config":%q}}`, value)
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Patch(s.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	expect.NoError(s.t, err)
}

// past is what has happened to a workload: whatever starts a rollout, or comes of one, changes it.
type past struct {
	Generation int64
	// Config is that of the pod template, Rolled the label, and Undone whether an undo is recorded.
	Config, Rolled string
	Undone         bool
	// Revisions are the names of those that are kept, and Pods is how many were ever created.
	Revisions []string
	Pods      int
}

func (s *site) past(ref string) past {
	s.t.Helper()
	meta, template := s.see(ref)
	_, undone := meta.Annotations[trigger.UndoneAnnotation]
	return past{
		Generation: meta.Generation, Config: template.Annotations[trigger.ConfigAnnotation], Rolled: meta.Labels[trigger.RolloutLabel],
		Undone: undone, Revisions: s.revisions(meta.UID), Pods: len(s.created(meta.Name)),
	}
}

// see returns what is in a workload, such as deployment/web.
func (s *site) see(ref string) (metav1.ObjectMeta, corev1.PodTemplateSpec) {
	s.t.Helper()
	kind, name, _ := strings.Cut(ref, "/")
	switch apps := s.client.AppsV1(); kind {
	case "statefulset":
		w, err := apps.StatefulSets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		expect.NoError(s.t, err)
		return w.ObjectMeta, w.Spec.Template
	case "daemonset":
		w, err := apps.DaemonSets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		expect.NoError(s.t, err)
		return w.ObjectMeta, w.Spec.Template
	default:
		w := s.deployment(name)
		return w.ObjectMeta, w.Spec.Template
	}
}

// revisions returns the names of the revisions that a workload has, in order.
func (s *site) revisions(owner types.UID) []string {
	s.t.Helper()
	list, err := s.client.AppsV1().ControllerRevisions(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	expect.NoError(s.t, err)
	var names []string
	add := func(meta *metav1.ObjectMeta) {
		if of := metav1.GetControllerOf(meta); of != nil && of.UID == owner {
			names = append(names, meta.Name)
		}
	}
	for i := range list.Items {
		add(&list.Items[i].ObjectMeta)
	}
	for _, set := range s.replicaSets() {
		add(&set.ObjectMeta)
	}
	slices.Sort(names)
	return names
}

// created returns the pods that a workload was ever given.
func (s *site) created(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, e := range s.stage.Journal(s.namespace) {
		if e.What == fakenodes.Created && e.Pod.Labels["app"] == name {
			pods = append(pods, e.Pod)
		}
	}
	return pods
}

// configOf returns the value of the ConfigMap that a pod has read, and empty if it has not yet.
func (s *site) configOf(pod *corev1.Pod) string {
	for _, source := range s.stage.Config(pod) {
		if value, found := source.Data["config"]; found {
			return value
		}
	}
	return ""
}

// read returns which values the pods have read that a workload was ever given.
func (s *site) read(name string) []string {
	var values []string
	for _, pod := range s.created(name) {
		if value := s.configOf(pod); value != "" { // Otherwise it was never started.
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// failWith has pods fail for as long as they have read a value.
func (s *site) failWith(value string) {
	s.stage.SetFails(s.namespace, func(pod *corev1.Pod) error {
		if s.configOf(pod) == value {
			return fmt.Errorf("the config is %q", value)
		}
		return nil
	})
}

// beat has the controller roll something else out, so that it has had the time to do what it should not have done.
func (s *site) beat() {
	s.t.Helper()
	_, err := s.client.AppsV1().Deployments(s.namespace).Get(s.t.Context(), "beat", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.putConfigMap("beat", "0")
		s.apply(manifest("deployment", "beat", "replicas: 2", "replicas: 0", "configmap/foo", "configmap/beat", "{name: foo}", "{name: beat}"))
		s.rolledOut("beat", map[string]string{"configmap/beat": "0"})
	}
	s.beats++
	value := fmt.Sprint(s.beats)
	s.edit("beat", value)
	s.rolledOut("beat", map[string]string{"configmap/beat": value})
}

// unmoved does something, and fails the test if that changes anything of a workload within several quiet periods.
func (s *site) unmoved(ref, why string, do func()) {
	s.t.Helper()
	before := s.past(ref)
	do()
	for range 3 {
		s.beat()
	}
	if diff := cmp.Diff(before, s.past(ref)); diff != "" {
		s.t.Fatalf("%s changed %s (-want +got):\n%s", why, ref, diff)
	}
}

// restart ends the controller without warning and starts it again.
func (s *site) restart() {
	s.t.Helper()
	s.kill()
	s.start()
}

// undoes runs kubectl rollout undo and waits until that is noticed.
func (s *site) undoes(ref string, flags ...string) {
	s.t.Helper()
	s.kubectl(append([]string{"rollout", "undo", ref}, flags...)...)
	s.eventually(func() error {
		meta, template := s.see(ref)
		config, err := trigger.ParseConfig(template.Annotations[trigger.ConfigAnnotation])
		if err != nil && template.Annotations[trigger.ConfigAnnotation] != "" {
			return err
		}
		if mark := trigger.ParseMark(meta.Labels[trigger.RolloutLabel]); !mark.IsUndoneFor(config) {
			return fmt.Errorf("the undo of %s is not recorded: the label is %s", ref, mark)
		}
		return nil
	})
	s.kubectl("rollout", "status", ref, "--timeout="+soon.String())
}

// repairs returns the Events about a manifest was applied again.
func (s *site) repairs(about string) []string {
	s.t.Helper()
	list, err := s.client.CoreV1().Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	expect.NoError(s.t, err)
	var notes []string
	for _, e := range list.Items {
		if e.Reason == rollout.ReasonRepaired && e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name == about {
			notes = append(notes, e.Message)
		}
	}
	return notes
}

// numberOf returns the number of the revision of a Deployment whose pods use a copy.
func (s *site) numberOf(copied string) string {
	s.t.Helper()
	for _, set := range s.replicaSets() {
		if set.Spec.Template.Spec.Volumes[0].ConfigMap.Name == copied {
			return set.Annotations["deployment.kubernetes.io/revision"]
		}
	}
	s.t.Fatalf("no ReplicaSet uses %s", copied)
	return ""
}

// measured returns the value of one of the controller's metrics, such as copies, which it serves at an address.
func (s *site) measured(address, metric string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	expect.NoError(s.t, err)
	var answer *http.Response
	s.eventually(func() (err error) { // It may have been started just now.
		answer, err = http.DefaultClient.Do(request) //nolint:bodyclose // It is closed below.
		return err
	})
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	expect.NoError(s.t, err)
	for line := range strings.Lines(string(text)) {
		if number, found := strings.CutPrefix(line, "liveconfig_controller_"+metric+" "); found {
			return strings.TrimSpace(number)
		}
	}
	s.t.Fatalf("no metric %s in:\n%s", metric, text)
	return ""
}

// hasRevisions returns nil if a workload has so many revisions.
func (s *site) hasRevisions(ref string, want int) error {
	s.t.Helper()
	if got := len(s.past(ref).Revisions); got != want {
		return fmt.Errorf("%s has %d revisions, want %d", ref, got, want)
	}
	return nil
}

// wantRevisions fails the test unless a workload has as many revisions as it had, and some more.
func (s *site) wantRevisions(ref string, before past, more int) {
	s.t.Helper()
	after := s.past(ref)
	if got, want := len(after.Revisions), len(before.Revisions)+more; got != want {
		s.t.Errorf("%s has %d revisions, want %d: %d for what was done (-before +after):\n%s", ref, got, want, more, cmp.Diff(before, after))
	}
}

// copiedToRevision returns nil when one of a Deployment's ReplicaSets has an annotation: its controller copies them a moment
// after they are set.
func (s *site) copiedToRevision(name, annotation string) error {
	s.t.Helper()
	for _, r := range s.replicaSets() {
		if _, found := r.Annotations[annotation]; found && metav1.IsControlledBy(&r, s.deployment(name)) {
			return nil
		}
	}
	return fmt.Errorf("no revision of %s has the annotation %s", name, annotation)
}
