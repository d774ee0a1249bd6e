package driver

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

func (b *rig) createSecret(secret *corev1.Secret) {
	b.T.Helper()
	if _, err := b.Cluster.Client().CoreV1().Secrets(b.Namespace).Create(b.T.Context(), secret, metav1.CreateOptions{}); err != nil {
		b.T.Fatal(err)
	}
}

// files returns mode and content of everything in the pod's volume by path, read through the volume's root as a program
// in a container does, and reserved names left out. Directories have a mode alone.
func (b *rig) files(pod *corev1.Pod) map[string]string {
	b.T.Helper()
	root, err := os.OpenRoot(b.Path(pod, "..data"))
	expect.NoError(b.T, err)
	defer root.Close()
	found := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found[path] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := root.ReadFile(path)
			found[path] += " " + environment.Unmarked(string(data))
			return err
		}
		return nil
	})
	expect.NoError(b.T, err)
	return found
}

// wantFiles compares everything in the pod's volume; it waits for nothing.
func (b *rig) wantFiles(pod *corev1.Pod, want map[string]string) {
	b.T.Helper()
	want = maps.Clone(want)
	if want["."] == "" {
		want["."] = "drwxr-xr-x"
	}
	if diff := cmp.Diff(want, b.files(pod)); diff != "" {
		b.T.Errorf("files of %s (-want +got):\n%s", pod.Name, diff)
	}
}

// TestKeysAndBytesArriveAsTheyAre shows rules 1, 2, 3, 16 and 18 with what a real API server lets pass: every legal form of
// a key, data beside binaryData, bytes of every kind, a Secret of whatever type.
func TestKeysAndBytesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.New(t)}
	long := strings.Repeat("k", 253)
	data := map[string]string{
		"-": "dash", "_": "underscore", ".hidden": "dot", "a..b": "dots", "end..": "dots at the end", "-rf": "no flag",
		"A": "upper", "a": "lower", long: "long", "nul": "a\x00b", "no-newline": "x", "newline": "x\n", "crlf": "x\r\n",
		"unicode": "é 日本 \U0001f600", "bom": "\ufeffx",
	}
	for key, value := range data {
		data[key] = value[:1] + environment.Mark + value[1:] // The bytes at both ends are exact.
	}
	data["empty"], data["unicode"], data["bom"] = "", "é 日本 \U0001f600"+environment.Mark, "\ufeff"+environment.Mark
	binary := map[string][]byte{"binary": []byte("\xff\xfe\x00" + environment.Mark + "\x80")}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Data: data, BinaryData: binary}
	if _, err := b.ConfigMaps().Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.createSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Type: "example.com/anything", Data: map[string][]byte{"key": []byte("\x00" + environment.Mark + "\xff"), "zero": nil},
	})
	all := map[string]string{
		"binary": "-rw-r--r-- " + string(binary["binary"]), "key": "-rw-r--r-- \x00" + environment.Mark + "\xff", "zero": "-rw-r--r-- ",
	}
	for key, value := range data {
		all[key] = "-rw-r--r-- " + value
	}
	whole := b.Pod("whole", map[string]string{"sources": "[{configMap: {name: odd, items: []}}, {secret: {name: typed}}]"})
	b.Publish(whole)
	b.wantFiles(whole, all)

	some := b.Pod("some", map[string]string{
		"sources":     "[{configMap: {name: odd, items: [{key: binary, path: from/binary, mode: 0400}, {key: a, path: from/data}]}}, {secret: {name: typed}}]",
		"defaultMode": "0440",
	})
	b.Publish(some)
	b.wantFiles(some, map[string]string{
		"from": "drwxr-xr-x", "from/binary": "-r-------- " + string(binary["binary"]), "from/data": "-r--r----- " + data["a"],
		"key": "-r--r----- \x00" + environment.Mark + "\xff", "zero": "-r--r----- ",
	})

	// Each volume has room for objects of 1 MiB (rule 17), and there are none that are larger.
	large := fixture.ConfigMap("large", map[string]string{"k": strings.Repeat("x", 1<<20)})
	_, err := b.ConfigMaps().Create(t.Context(), large, metav1.CreateOptions{})
	expect.NoError(t, err)
	large.Name, large.Data["k"] = "larger", large.Data["k"]+"x"
	if _, err := b.ConfigMaps().Create(t.Context(), large, metav1.CreateOptions{}); err == nil {
		t.Error("the API server takes an object of more than 1 MiB: the volumes' limits do not know that")
	}
}

// TestAChangeReachesEveryVolumeThatUsesTheObject is rule 61, through one watch for all (rule 57).
func TestAChangeReachesEveryVolumeThatUsesTheObject(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("web", map[string]string{"color": "red"})
		var pods []*corev1.Pod
		for i := range 5 {
			pod := b.Pod(fmt.Sprintf("web-%d", i), map[string]string{"configMap": "web"})
			b.Publish(pod)
			pods = append(pods, pod)
		}
		b.UpdateConfigMap("web", map[string]string{"color": "green", "shape": "round"})
		for _, pod := range pods {
			b.WantFile(pod, "color", "green")
			b.WantFile(pod, "shape", "round")
		}
		b.UpdateConfigMap("web", map[string]string{"shape": "square"})
		for _, pod := range pods {
			b.WantFile(pod, "shape", "square")
			b.WantNoFile(pod, "color")
		}
		if got := b.Metric("liveconfig_watches"); b.Cluster != nil && got != "1" {
			t.Errorf("%s watches for one object in five volumes, want 1", got)
		}
	})
}

// TestAManifestWithAMistakeKeepsTheFiles, and reports where the mistake is: in the log, in the status and in a metric. A driver that
// starts with one leaves the files of live volumes alone, and refuses what it cannot know. What changed while none ran follows.
func TestAManifestWithAMistakeKeepsTheFiles(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.Without(t, "--publish-timeout=200ms")}
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"configMap": "web", "onDelete": "Remove"})
	b.Publish(pod)
	manifest := filepath.Join(b.Manifests, "ConfigMap-web.json")
	good, err := os.ReadFile(manifest)
	expect.NoError(t, err)
	writeFile(t, manifest, strings.Replace(string(good), `"data":{`, `"data":{"port":6379,`, 1))
	b.WantNumber("liveconfig_manifest_problems", 1)
	b.WantFile(pod, "color", "red")
	const want = `data.port: a value must be a string: put it in quotes`
	b.wantProblem(want)
	expect.NoError(t, b.logged("ConfigMap-web.json, document 1, line 1: "+want))

	b.Kill()
	b.Start()
	b.WantNumber("liveconfig_manifest_problems", 1)
	b.wantProblem(want)
	b.WantFile(pod, "color", "red")
	b.WantRefusal(b.Pod("other", map[string]string{"configMap": "web"}), codes.Unavailable, want)

	writeFile(t, manifest, strings.ReplaceAll(string(good), "red", "green"))
	b.WantNumber("liveconfig_manifest_problems", 0)
	b.WantFile(pod, "color", "green")
	b.Kill()
	writeFile(t, manifest, strings.ReplaceAll(string(good), "red", "blue"))
	b.Start()
	b.WantFile(pod, "color", "blue")
	b.DeleteConfigMap("web")
	b.WantNoFile(pod, "color")
}

// wantProblem wants that the status of a driver without an API server has one problem with the text.
func (b *rig) wantProblem(text string) {
	b.T.Helper()
	var report statusz.Report
	expect.NoError(b.T, json.Unmarshal([]byte(b.Get("/statusz")), &report))
	m := report.Manifests
	if m == nil || m.Directory != b.Manifests || len(m.Problems) != 1 || m.Problems[0].Message != text {
		b.T.Errorf("the status says of the manifests: %+v, want the problem %q", m, text)
	}
}

// TestErrorsContainNoSecret takes a Secret through what can go wrong with it. That its bytes are nowhere but in
// the volume is looked at when the driver is stopped, as after every test. This is fault 28.
func TestErrorsContainNoSecret(t *testing.T) {
	t.Parallel()
	for format, failed := range map[string]string{
		"text": `level=ERROR msg="Call failed"`,
		"json": `"level":"ERROR","msg":"Call failed"`,
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := &rig{fixture.New(t, "--publish-timeout=200ms", "--log-format="+format)}
			b.SetSecret("app", map[string]string{"a": "1"})
			pod := b.Pod("live", map[string]string{
				"sources": "[{secret: {name: app}}, {secret: {name: app, optional: true, items: [{key: b, path: c/b}]}}]",
			})
			b.Publish(pod)

			// What a publish is refused for.
			b.WantRefusal(b.Pod("no-key", map[string]string{"secret": "app", "items": "[{key: z, path: z}]"}),
				codes.FailedPrecondition, "references non-existent secret key: z")
			expect.NoError(t, b.logged(failed))
			b.WantRefusal(b.Pod("conflict", map[string]string{
				"sources": "[{secret: {name: app}}, {secret: {name: app, items: [{key: a, path: a/a}]}}]",
			}), codes.InvalidArgument, "a/a")
			other := pod.DeepCopy()
			other.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"secret": "app"}
			b.WantRefusal(other, codes.AlreadyExists, "already published")

			// What an update fails for: c cannot be a file beside c/b. Then the source is gone.
			b.SetSecret("app", map[string]string{"a": "2", "b": "2", "c": "2"})
			b.WantEvent(pod, "ProjectionFailed", "c")
			b.WantFile(pod, "a", "1")
			b.wantHealth(pod, "c")
			secrets := b.Cluster.Client().CoreV1().Secrets(b.Namespace)
			expect.NoError(t, secrets.Delete(t.Context(), "app", metav1.DeleteOptions{}))
			b.WantEvent(pod, "SourceMissing", `secret "app" not found`)

			// A driver that dies of a signal writes down what all its threads are doing.
			expect.NoError(t, unix.Kill(b.Node.PID(), unix.SIGQUIT))
			expect.Eventually(t, fixture.Soon, func() error { return b.logged("\ngoroutine ") })
			b.Kill()
			b.Start()
			b.SetSecret("app", map[string]string{"a": "3"})
			b.WantFile(pod, "a", "3")
		})
	}
}

// wantHealth wants the volume to be unwell with a message that holds the text, and that the text about it contains no
// secret.
func (b *rig) wantHealth(pod *corev1.Pod, text string) {
	b.T.Helper()
	expect.NoError(b.T, b.unwell(pod, text))
	id, ctx := fakekubelet.VolumeID(pod, "config"), b.T.Context()
	health, err := b.Node.Node().NodeGetVolumeHealth(ctx, &csi.NodeGetVolumeHealthRequest{VolumeId: id})
	expect.NoError(b.T, err)
	stats, err := b.Node.Node().NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: b.Node.Target(pod, "config")})
	expect.NoError(b.T, b.Heard(err))
	for _, message := range []proto.Message{health, stats} {
		wire, err := proto.Marshal(message)
		expect.NoError(b.T, err)
		if err := environment.Leak(wire); err != nil {
			b.T.Errorf("%T: %v", message, err)
		}
	}
}

// logged returns an error unless the driver's log holds the text.
func (b *rig) logged(text string) error {
	log, err := os.ReadFile(b.Node.LogFile())
	if err == nil && !strings.Contains(string(log), text) {
		err = fmt.Errorf("the log does not hold %q:\n%s", text, process.Tail(b.Node.LogFile(), 8192))
	}
	return err
}
