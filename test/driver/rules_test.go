package driver

import (
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// The rules that these tests name are those of test/RULES.md.

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
	must(b.T, err)
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
	must(b.T, err)
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
	b := newRig(t)
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
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"k": strings.Repeat("x", 1<<20)}}
	_, err := b.ConfigMaps().Create(t.Context(), large, metav1.CreateOptions{})
	must(t, err)
	large.Name, large.Data["k"] = "larger", large.Data["k"]+"x"
	if _, err := b.ConfigMaps().Create(t.Context(), large, metav1.CreateOptions{}); err == nil {
		t.Error("the API server takes an object of more than 1 MiB: the volumes' limits do not know that")
	}
}

// TestRefusalsSayWhatUsersKnow is rule 9, each text to the letter, rule 11, several in one, and rule 10: the message is
// nothing but that text, which the kubelet quotes in the Event.
func TestRefusalsSayWhatUsersKnow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		want       string
	}{
		"a ConfigMap":              {map[string]string{"configMap": "x"}, `configmap "x" not found`},
		"a Secret":                 {map[string]string{"secret": "x"}, `secret "x" not found`},
		"a key of a ConfigMap":     {map[string]string{"configMap": "part", "items": "[{key: K, path: k}]"}, "configmap references non-existent config key: K"},
		"a key of a Secret":        {map[string]string{"secret": "part", "items": "[{key: K, path: k}]"}, "references non-existent secret key: K"},
		"equal texts once":         {map[string]string{"sources": "[{configMap: {name: x}}, {configMap: {name: x}}]"}, `configmap "x" not found`},
		"what is there is not":     {map[string]string{"sources": "[{configMap: {name: part}}, {secret: {name: x}}]"}, `secret "x" not found`},
		"optional helps its own":   {map[string]string{"sources": "[{configMap: {name: x, optional: true}}, {secret: {name: z}}]"}, `secret "z" not found`},
		"several, in their order":  {map[string]string{"sources": "[{secret: {name: z}}, {configMap: {name: part, items: [{key: K, path: k}]}}, {configMap: {name: x}}]"}, `[secret "z" not found, configmap references non-existent config key: K, configmap "x" not found]`},
		"two keys of one":          {map[string]string{"secret": "part", "items": "[{key: K, path: k}, {key: a, path: a}, {key: L, path: l}]"}, `[references non-existent secret key: K, references non-existent secret key: L]`},
		"one key for two paths":    {map[string]string{"configMap": "part", "items": "[{key: K, path: k}, {key: K, path: l}]"}, "configmap references non-existent config key: K"},
		"the names differ in case": {map[string]string{"configMap": "part", "items": "[{key: A, path: a}]"}, "configmap references non-existent config key: A"},
	}
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("part", map[string]string{"a": "1"})
		b.SetSecret("part", map[string]string{"a": "1"})
		for name, tt := range tests {
			pod := b.Pod("web", tt.attributes)
			err := b.Heard(b.Node.Publish(t.Context(), pod, pod.Spec.Volumes[0]))
			if code, text := status.Code(err), status.Convert(err).Message(); code != codes.FailedPrecondition || text != tt.want {
				t.Errorf("%s: publish gave %s %q, want %s %q", name, code, text, codes.FailedPrecondition, tt.want)
			}
			b.WantNothing(pod, name)
		}
	}, "--publish-timeout=200ms")
}
