package release

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// perPod is how many objects a pod's volume has, and mounted how many there are in volumes: a node has no thousands.
const (
	perPod  = 20
	mounted = 500
)

// migration is a cluster whose objects lie in etcd under a key, which is changed. Then each object is written again.
type migration struct {
	*site
	keys    string // The file of the API server.
	objects int
	filled  []*corev1.Pod // Those with volumes of these objects.
	dynamic dynamic.Interface
}

// TestStorageMigration: objects that are written again unchanged, as a StorageVersionMigration does after a change of keys,
// have new versions and nothing else. No file is written, no workload is rolled out, and releases go on.
//
// Fault 55.
func TestStorageMigration(t *testing.T) {
	t.Parallel()
	m := newMigration(t, soak.Rounds(300, 5000))
	m.patience = time.Duration(soak.Rounds(1, 10)) * time.Minute // A driver opens hundreds of watches again, with its share.
	m.fill()
	m.deploy("own")
	m.create("web", "{steps: [1], pause: 1h}", map[string]string{"a": "1"})
	m.createSecret("secret", "{group: both, steps: [1], pause: 1h}", "1")
	m.create("map", "{group: both, steps: [1], pause: 1h}", map[string]string{"b": "1"})
	m.create("fast", "{steps: [1, 2, 3], pause: 2s}", map[string]string{"d": "1"})
	m.replicas(4, m.volume())
	m.edit("web", map[string]string{"a": "2"})
	m.edit("map", map[string]string{"b": "2"})
	m.patchSecret(map[string]any{"stringData": kit.Marked(map[string]string{"c": "2"})})
	m.wantHeld()

	m.changeKey()
	m.edit("fast", map[string]string{"d": "2"})
	before, written := m.state(), m.Number(`liveconfig_syncs_total{result="written"}`)
	m.rewriteAll()
	m.wantSeen()
	m.wantHeld()
	m.wantValues("d", map[string]int{"2": 4}) // It went on meanwhile.
	if diff := cmp.Diff(before, m.state()); diff != "" {
		t.Errorf("what the migration changed (-before +after):\n%s", diff)
	}
	const ofFast = 3 * 4 // Each of its steps may write the volumes of four pods.
	if more := m.Number(`liveconfig_syncs_total{result="written"}`) - written; more > ofFast {
		t.Errorf("files were written %v times, want %d at most", more, ofFast)
	}
	m.wantOneEvent("fast", releases.ReasonPromoted)
	m.kill()
	m.start() // It knows the objects by their new versions only.
	m.run("web-new", m.volume())
	for _, file := range []string{"a", "b", "c"} {
		m.wantValues(file, map[string]int{"1": 4, "2": 1})
	}
	m.wantOneEvent("web", releases.ReasonExposed)

	for _, name := range []string{"web", "map"} { // The releases go on from where they are.
		patch := strings.ReplaceAll(`{"metadata": {"annotations": {"`+release.Annotation+`": "{GROUPsteps: [1], pause: 1s}"}}}`,
			"GROUP", map[string]string{"map": "group: both, "}[name])
		_, err := m.ConfigMaps().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		expect.NoError(t, err)
	}
	m.patchSecret(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		release.Annotation: "{group: both, steps: [1], pause: 1s}",
	}}})
	for _, file := range []string{"a", "b", "c"} {
		m.wantValues(file, map[string]int{"2": 5})
	}
	for _, name := range []string{"web", "map", "secret"} {
		m.wantOneEvent(name, releases.ReasonPromoted)
	}
}

// volume is that of the pods that releases are shown to.
func (*migration) volume() map[string]string {
	return map[string]string{
		"sources": "[{configMap: {name: web}}, {configMap: {name: map}}, {secret: {name: secret}}, {configMap: {name: fast}}]",
	}
}

func newMigration(t *testing.T, objects int) *migration {
	t.Helper()
	m := &migration{objects: objects, keys: filepath.Join(t.TempDir(), "keys.yaml")}
	writeKeys(t, m.keys, "one")
	c, err := cluster.Start(t.Context(), cluster.Config{APIServerArgs: []string{"--encryption-provider-config=" + m.keys}})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, c.Stop()) })
	b := kit.NewBareIn(t, c)
	b.Use(environment.NodeIn(t, c, "--http-endpoint="+b.HTTP))
	b.AllowSecrets("default")
	m.site = newIdleSiteOf(t, b, environment.Controller(t))
	m.dynamic, err = dynamic.NewForConfig(c.AdminConfig())
	expect.NoError(t, err)
	m.start()
	return m
}

// writeKeys writes the configuration of an API server that writes with the first key and reads with all.
func writeKeys(t *testing.T, path string, names ...string) {
	t.Helper()
	var keys []map[string]string
	for _, name := range names {
		secret := make([]byte, 32)
		copy(secret, name)
		keys = append(keys, map[string]string{"name": name, "secret": base64.StdEncoding.EncodeToString(secret)})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": []any{map[string]any{
			"resources": []string{"configmaps", "secrets"},
			"providers": []any{map[string]any{"aescbc": map[string]any{"keys": keys}}},
		}},
	})
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(path, text, 0o600))
}

// changeKey restarts the API server with another key for what it writes.
func (m *migration) changeKey() {
	m.T.Helper()
	expect.NoError(m.T, m.Cluster.StopAPIServer())
	writeKeys(m.T.(*testing.T), m.keys, "two", "one")
	expect.NoError(m.T, m.Cluster.StartAPIServer(m.T.Context()))
}

// fill makes ConfigMaps and Secrets, and pods that have them in their volumes.
func (m *migration) fill() {
	m.T.Helper()
	var making errgroup.Group
	making.SetLimit(8)
	for i := range m.objects {
		making.Go(func() error { return m.object(i) })
	}
	expect.NoError(m.T, making.Wait())
	for first := 0; first < min(m.objects, mounted); first += perPod {
		var sources []string
		for i := first; i < first+perPod; i++ {
			sources = append(sources, fmt.Sprintf("{%s: {name: o-%d}}", []string{"configMap", "secret"}[i%2], i))
		}
		policies := []string{"Atomic", "Replace", "InPlace"}
		pod := m.Pod(fmt.Sprint("pod-", first), map[string]string{
			"sources": "[" + strings.Join(sources, ", ") + "]", "updatePolicy": policies[first/perPod%len(policies)],
		})
		m.Publish(pod)
		m.filled = append(m.filled, pod)
	}
}

func (m *migration) object(i int) error {
	meta := metav1.ObjectMeta{Name: fmt.Sprint("o-", i)}
	data := kit.Marked(map[string]string{meta.Name: rand.Text()})
	core := m.Cluster.Client().CoreV1()
	if i%2 == 0 {
		_, err := core.ConfigMaps(m.Namespace).Create(m.T.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: data}, metav1.CreateOptions{})
		return err
	}
	_, err := core.Secrets(m.Namespace).Create(m.T.Context(), &corev1.Secret{ObjectMeta: meta, StringData: data}, metav1.CreateOptions{})
	return err
}

func (m *migration) createSecret(name, annotation, value string) {
	m.T.Helper()
	_, err := m.Cluster.Client().CoreV1().Secrets(m.Namespace).Create(m.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{release.Annotation: annotation}},
		StringData: kit.Marked(map[string]string{"c": value}),
	}, metav1.CreateOptions{})
	expect.NoError(m.T, err)
}

// patchSecret changes what is in a patch, and leaves the annotation of the release otherwise.
func (m *migration) patchSecret(patch any) {
	m.T.Helper()
	text, err := json.Marshal(patch)
	expect.NoError(m.T, err)
	_, err = m.Cluster.Client().CoreV1().Secrets(m.Namespace).Patch(m.T.Context(), "secret", types.MergePatchType, text,
		metav1.PatchOptions{})
	expect.NoError(m.T, err)
}

// deploy makes a Deployment that two objects of its own roll out, and waits until its template names copies of them.
func (m *migration) deploy(name string) {
	m.T.Helper()
	m.CreateConfigMap(name, map[string]string{"k": "1"})
	m.SetSecret(name, map[string]string{"s": "1"})
	labels := map[string]string{"app": name}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app", EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
	}}}}
	_, err := m.Cluster.Client().AppsV1().Deployments(m.Namespace).Create(m.T.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			trigger.TriggeredBy: "configmap/" + name + ",secret/" + name,
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	expect.NoError(m.T, err)
	m.eventually(func() error {
		d, err := m.Cluster.Client().AppsV1().Deployments(m.Namespace).Get(m.T.Context(), name, metav1.GetOptions{})
		if err == nil && d.Spec.Template.Annotations[trigger.ConfigAnnotation] == "" {
			err = errors.New("the controller has not rolled it out")
		}
		return err
	})
}

// wantHeld waits until one of four pods has each edit that is held, and all of a group.
func (m *migration) wantHeld() {
	m.T.Helper()
	for _, file := range []string{"a", "b", "c"} {
		m.wantValues(file, map[string]int{"1": 3, "2": 1})
	}
}

// state is what a migration leaves alone.
type state struct {
	Files      map[string]string // Inodes, and times of change, by path.
	Generation int64             // Of the Deployment.
	Exposures  map[string]release.Exposure
	Copies     int // And stable copies, and former contents.
}

func (m *migration) state() state {
	m.T.Helper()
	s := state{Files: map[string]string{}, Exposures: map[string]release.Exposure{}}
	for _, pod := range m.filled {
		expect.NoError(m.T, filepath.WalkDir(m.Node.Target(pod, kit.VolumeName), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			err = unix.Lstat(path, &st)
			s.Files[path] = fmt.Sprintf("inode %d, written %v, changed %v", st.Ino, st.Mtim, st.Ctim)
			return err
		}))
	}
	d, err := m.Cluster.Client().AppsV1().Deployments(m.Namespace).Get(m.T.Context(), "own", metav1.GetOptions{})
	expect.NoError(m.T, err)
	s.Generation = d.Generation
	for _, name := range []string{"web", "map"} {
		s.Exposures[name], err = m.exposure(name)
		expect.NoError(m.T, err)
	}
	list, err := m.ConfigMaps().List(m.T.Context(), metav1.ListOptions{})
	expect.NoError(m.T, err)
	s.Copies = len(list.Items)
	return s
}

// rewriteAll writes each ConfigMap and Secret again, the first half as the migrator of Kubernetes does, and the other half
// as its predecessor does.
func (m *migration) rewriteAll() {
	m.T.Helper()
	for _, resource := range []string{"configmaps", "secrets"} {
		objects := m.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(m.Namespace)
		list, err := objects.List(m.T.Context(), metav1.ListOptions{})
		expect.NoError(m.T, err)
		var writing errgroup.Group
		writing.SetLimit(8)
		for i, o := range list.Items {
			rewrite := func() (string, error) {
				return rewriteByUpdate(m.T.Context(), objects, o.GetName())
			}
			if i%2 == 0 {
				rewrite = func() (string, error) {
					empty := o.DeepCopy()
					empty.Object = map[string]any{"apiVersion": "v1", "kind": o.GetKind(), "metadata": map[string]any{
						"name": o.GetName(), "namespace": o.GetNamespace(), "uid": string(o.GetUID()),
					}}
					after, err := objects.Apply(m.T.Context(), o.GetName(), empty, metav1.ApplyOptions{FieldManager: "migrator"})
					if err != nil {
						return "", err
					}
					return after.GetResourceVersion(), nil
				}
			}
			writing.Go(func() error {
				version, err := rewrite()
				isNew := strings.HasPrefix(o.GetName(), "fast") // It was edited after the key was changed.
				if err == nil && !isNew && version == o.GetResourceVersion() {
					err = fmt.Errorf("%s %s was not written", resource, o.GetName())
				}
				return err
			})
		}
		expect.NoError(m.T, writing.Wait())
	}
}

func rewriteByUpdate(ctx context.Context, objects dynamic.ResourceInterface, name string) (version string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		after, err := objects.Update(ctx, o, metav1.UpdateOptions{})
		if err == nil {
			version = after.GetResourceVersion()
		}
		return err
	})
	return version, err
}

// wantSeen waits until the driver reports the new version of each object, as the one in the files too.
func (m *migration) wantSeen() {
	m.T.Helper()
	versions := map[string]string{}
	core := m.Cluster.Client().CoreV1()
	maps, err := core.ConfigMaps(m.Namespace).List(m.T.Context(), metav1.ListOptions{})
	expect.NoError(m.T, err)
	for _, o := range maps.Items {
		versions["ConfigMap/"+o.Name] = o.ResourceVersion
	}
	secrets, err := core.Secrets(m.Namespace).List(m.T.Context(), metav1.ListOptions{})
	expect.NoError(m.T, err)
	for _, o := range secrets.Items {
		versions["Secret/"+o.Name] = o.ResourceVersion
	}
	m.eventually(func() error {
		var report statusz.Report
		text, err := m.Fetch("/statusz")
		if err == nil {
			err = json.Unmarshal([]byte(text), &report)
		}
		if err != nil {
			return err
		}
		for _, v := range report.Volumes {
			for _, s := range v.Sources {
				want := versions[s.Kind+"/"+s.Name]
				if s.Known == nil || s.Projected == nil || s.Known.ResourceVersion != want || s.Release == nil && *s.Projected != *s.Known {
					return fmt.Errorf("volume %s has %s %s at %v, with %v in its files, want %s", v.ID, s.Kind, s.Name, s.Known, s.Projected, want)
				}
			}
		}
		return nil
	})
}

// wantOneEvent waits for the Event of a reason about an object, and fails the test if there is another one.
func (m *migration) wantOneEvent(name, reason string) {
	m.T.Helper()
	m.wantEvent(name, reason, "")
	events, err := m.Cluster.Client().CoreV1().Events(m.Namespace).List(m.T.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + name + ",reason=" + reason,
	})
	expect.NoError(m.T, err)
	count := int32(0)
	for _, e := range events.Items {
		count += max(1, e.Count)
	}
	if count != 1 {
		m.T.Errorf("%s has %d Events %s, want 1", name, count, reason)
	}
}
