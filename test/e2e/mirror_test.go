package e2e_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// scenario is one of upstream's end-to-end tests of the kubelet's volumes, with volumes of the driver's in their place.
//
// Wherever a text has OBJECT, a name stands that no other scenario has.
type scenario struct {
	upstream string // The title of the test that it mirrors.

	given       []object            // What there is before the pod.
	volumes     []map[string]string // Attributes of the volumes at /config, /config-2 and so on.
	user, group int64               // Of the pod: runAsUser and fsGroup. 0 is none.

	refused string   // What is said of the pod, which must not start.
	mended  []object // What lets it start after all.

	want  files
	edits []edit // Made one after the other while the pod runs.

	// lock is the kind of OBJECT, which is then made immutable.
	lock string
}

// edit is a change of objects, and what the files are then.
type edit struct {
	put, drop []object
	want      files
}

// files is the whole content of a pod's volumes by paths: mode, uid, gid and bytes, as in "-rw-r--r-- 0 0 text".
type files map[string]string

// upstreamFile is one file of upstream's tests.
type upstreamFile struct {
	name      string
	scenarios map[string]scenario
}

// mirrored are all the tests that [TestMirror] mirrors.
func mirrored() []upstreamFile {
	return []upstreamFile{
		{"configmap_volume.go", configMapScenarios()},
		{"secrets_volume.go", secretScenarios()},
		{"projected_configmap.go", projectedConfigMapScenarios()},
		{"projected_secret.go", projectedSecretScenarios()},
		{"projected_combined.go", combinedScenarios()},
	}
}

// TestMirror does what upstream's end-to-end tests do, in containers of a real node. MIRROR.md lists them. Where nothing
// changes, each pod has the kubelet's own volumes beside the driver's, and both must have the same files.
//
// The tests of a node are not parallel; those of its pods are, and begin when all pods have been made.
//
//nolint:tparallel // As said.
func TestMirror(t *testing.T) {
	m := newMirror(t)
	var all []*mirrorPod
	groups := map[string]map[string]*mirrorPod{}
	for _, f := range mirrored() {
		groups[f.name] = map[string]*mirrorPod{}
		for _, name := range slices.Sorted(maps.Keys(f.scenarios)) {
			p := m.begin(t, len(all), f.scenarios[name])
			all, groups[f.name][name] = append(all, p), p
		}
	}
	m.awaitStarted(t, all)
	for file, pods := range groups {
		t.Run(strings.TrimSuffix(file, ".go"), func(t *testing.T) {
			t.Parallel()
			for name, p := range pods {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p.check(t)
				})
			}
		})
	}
}

// mirror is where the pods of the scenarios are.
type mirror struct {
	*site

	namespace string // Of the pods, whose service account may read its Secrets.
	elsewhere string // Another one.
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	s := on(t, realnode.Containerd2())
	m := &mirror{site: s, namespace: s.namespace(t), elsewhere: s.namespace(t)}
	s.allowSecrets(t, m.namespace)
	return m
}

// mirrorPod is the pod of a scenario.
type mirrorPod struct {
	*mirror
	scenario

	object string // What OBJECT stands for.
	pod    *corev1.Pod
}

// begin makes what a scenario needs, and its pod.
func (m *mirror) begin(t *testing.T, number int, sc scenario) *mirrorPod {
	t.Helper()
	p := &mirrorPod{mirror: m, scenario: sc, object: fmt.Sprintf("mirror-%d", number)}
	p.put(t, sc.given...)
	pod := boxPod(m.namespace, p.object, nil)
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil
	for i, attributes := range sc.volumes {
		p.mount(pod, mountOf(i), inline(fmt.Sprintf("volume-%d", i), p.named(attributes)))
		if p.hasTwin() {
			twin := corev1.Volume{Name: fmt.Sprintf("twin-%d", i), VolumeSource: inTree(t, p.named(attributes))}
			p.mount(pod, twinRoot+mountOf(i), twin)
		}
	}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	if sc.user != 0 {
		pod.Spec.SecurityContext.RunAsUser = new(sc.user)
	}
	if sc.group != 0 {
		pod.Spec.SecurityContext.FSGroup = new(sc.group)
	}
	p.pod = m.create(t, pod)
	return p
}

// mount adds a volume to a pod's spec.
func (p *mirrorPod) mount(pod *corev1.Pod, path string, v corev1.Volume) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, v)
	mounts := &pod.Spec.Containers[0].VolumeMounts
	*mounts = append(*mounts, corev1.VolumeMount{Name: v.Name, MountPath: path, ReadOnly: true})
}

// twinRoot is where the kubelet's own volumes are in a pod: the files of /config are those of /in-tree/config.
const twinRoot = "/in-tree"

// hasTwin reports whether the kubelet's volumes stand beside the driver's. They would be late for a change.
func (p *mirrorPod) hasTwin() bool { return p.refused == "" && p.edits == nil && p.lock == "" }

// mountOf is where the n-th volume is.
func mountOf(n int) string {
	if n == 0 {
		return mountPath
	}
	return fmt.Sprintf("%s-%d", mountPath, n+1)
}

// named puts the object's name into attributes.
func (p *mirrorPod) named(attributes map[string]string) map[string]string {
	named := map[string]string{}
	for key, value := range attributes {
		named[key] = p.name(value)
	}
	return named
}

func (p *mirrorPod) name(text string) string { return strings.ReplaceAll(text, "OBJECT", p.object) }

// awaitStarted waits until all pods are ready that nothing keeps from it.
func (m *mirror) awaitStarted(t *testing.T, pods []*mirrorPod) {
	t.Helper()
	waiting := map[string]bool{}
	for _, p := range pods {
		if p.refused == "" {
			waiting[p.pod.Name] = true
		}
	}
	m.awaitPods(t, 2*startTimeout, m.namespace, func(_ watch.EventType, pod *corev1.Pod) error {
		if ready(pod) == nil {
			delete(waiting, pod.Name)
		}
		if len(waiting) == 0 {
			return nil
		}
		return fmt.Errorf("not ready yet: %q", slices.Sorted(maps.Keys(waiting)))
	})
}

// check goes through the scenario.
func (p *mirrorPod) check(t *testing.T) {
	t.Helper()
	if p.refused != "" {
		p.wantRefused(t)
		p.put(t, p.mended...)
		p.awaitReady(t, p.pod)
	}
	p.wantFiles(t, "", p.want)
	if p.hasTwin() {
		p.wantFiles(t, twinRoot, p.want)
	}
	for _, e := range p.edits {
		p.drop(t, e.drop...)
		p.put(t, e.put...)
		p.wantFiles(t, "", e.want)
	}
	if p.lock != "" {
		p.wantLocked(t)
	}
}

// wantRefused waits for the kubelet to say why the pod cannot start, and looks that it does not.
func (p *mirrorPod) wantRefused(t *testing.T) {
	t.Helper()
	p.awaitEvent(t, p.pod, "FailedMount", p.name(p.refused))
	pod, err := p.Client().CoreV1().Pods(p.namespace).Get(t.Context(), p.pod.Name, metav1.GetOptions{})
	must(t, err)
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s, want %s", pod.Status.Phase, corev1.PodPending)
	}
}

// listing prints path, mode, uid, gid and content of all files below folders, and leaves out what only the writer of a
// volume looks at.
const listing = `find -L "$@" -path '*/..*' -prune -o -type f -print | while read -r f; do
  echo "$f|$(stat -L -c '%A %u %g' "$f")|$(base64 -w0 "$f")"
done`

// wantFiles waits until the volumes below root have these files, as the pod's user sees them, and no others.
func (p *mirrorPod) wantFiles(t *testing.T, root string, want files) {
	t.Helper()
	command := []string{"sh", "-c", listing, "sh"}
	for i := range p.volumes {
		command = append(command, root+mountOf(i))
	}
	eventually(t, changeTimeout, func() error {
		out, err := p.Exec(t.Context(), p.pod, "", command...)
		if err != nil {
			return err
		}
		got, err := parseListing(out, root)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("files of the volumes below %q (-want +got):\n%s", root, diff)
		}
		return nil
	})
}

// parseListing reads what [listing] prints.
func parseListing(out, root string) (files, error) {
	got := files{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(fields) != 3 {
			return nil, fmt.Errorf("a line of the listing is %q", line)
		}
		content, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil {
			return nil, fmt.Errorf("a line of the listing is %q: %w", line, err)
		}
		got[strings.TrimPrefix(fields[0], root)] = fields[1] + " " + string(content)
	}
	return got, nil
}
