package integration

import (
	"fmt"
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

	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
)

// The rules that these tests name are those of test/RULES.md.

func (b *bench) createSecret(secret *corev1.Secret) {
	b.t.Helper()
	if _, err := b.cluster.Client().CoreV1().Secrets(b.namespace).Create(b.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// files returns mode and content of everything in the pod's volume by path, read through the volume's root as a program
// in a container does, and reserved names left out. Directories have a mode alone.
func (b *bench) files(pod *corev1.Pod) map[string]string {
	b.t.Helper()
	root, err := os.OpenRoot(b.path(pod, "..data"))
	if err != nil {
		b.t.Fatal(err)
	}
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
			found[path] += " " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// wantFiles compares everything in the pod's volume; it waits for nothing.
func (b *bench) wantFiles(pod *corev1.Pod, want map[string]string) {
	b.t.Helper()
	want = maps.Clone(want)
	if want["."] == "" {
		want["."] = "drwxr-xr-x"
	}
	if diff := cmp.Diff(want, b.files(pod)); diff != "" {
		b.t.Errorf("files of %s (-want +got):\n%s", pod.Name, diff)
	}
}

// TestKeysAndBytesArriveAsTheyAre shows rules 1, 2, 16 and 18 with what a real API server lets pass: every legal form of
// a key, data beside binaryData, bytes of every kind, a Secret of whatever type.
func TestKeysAndBytesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := strings.Repeat("k", 253)
	data := map[string]string{
		"-": "dash", "_": "underscore", ".hidden": "dot", "a..b": "dots", "end..": "dots at the end", "-rf": "no flag",
		"A": "upper", "a": "lower", long: "long", "empty": "", "nul": "a\x00b", "no-newline": "x", "newline": "x\n", "crlf": "x\r\n",
		"unicode": "é 日本 \U0001f600", "bom": "\ufeffx",
	}
	binary := map[string][]byte{"binary": {0xff, 0xfe, 0x00, 0x80}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Data: data, BinaryData: binary}
	if _, err := b.configMaps().Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.createSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Type: "example.com/anything", Data: map[string][]byte{"key": {0, 0xff}, "zero": nil},
	})
	all := map[string]string{"binary": "-rw-r--r-- \xff\xfe\x00\x80", "key": "-rw-r--r-- \x00\xff", "zero": "-rw-r--r-- "}
	for key, value := range data {
		all[key] = "-rw-r--r-- " + value
	}
	whole := b.pod("whole", map[string]string{"sources": "[{configMap: {name: odd, items: []}}, {secret: {name: typed}}]"})
	b.publish(whole)
	b.wantFiles(whole, all)

	some := b.pod("some", map[string]string{"configMap": "odd", "items": "[{key: binary, path: from/binary}, {key: a, path: from/data}]"})
	b.publish(some)
	b.wantFiles(some, map[string]string{
		"from": "drwxr-xr-x", "from/binary": "-rw-r--r-- \xff\xfe\x00\x80", "from/data": "-rw-r--r-- lower",
	})
}

// TestTheLargestObjects is rule 17: each of two sources holds all that an object can, and changes as a whole.
func TestTheLargestObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const mebibyte = 1 << 20
	b.createConfigMap("large", map[string]string{"value": strings.Repeat("1", mebibyte)})
	b.createSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string][]byte{"secret": []byte(strings.Repeat("s", mebibyte))},
	})
	pod := b.pod("large", map[string]string{"sources": "[{configMap: {name: large}}, {secret: {name: large}}]"})
	b.publish(pod)
	for _, digit := range []string{"2", "3"} {
		b.updateConfigMap("large", map[string]string{"value": strings.Repeat(digit, mebibyte)})
		lab.Eventually(t, soon, func() error {
			got, err := os.ReadFile(b.path(pod, "value"))
			if err != nil || string(got) != strings.Repeat(digit, mebibyte) {
				return fmt.Errorf("value has %d bytes, %w, want %d times %s", len(got), err, mebibyte, digit)
			}
			return nil
		})
	}
	if info, err := os.Stat(b.path(pod, "secret")); err != nil || info.Size() != mebibyte {
		t.Errorf("the secret is %v, %v, want %d bytes", info, err, mebibyte)
	}
	tooLarge := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "larger"}, Data: map[string]string{"value": strings.Repeat("1", mebibyte+1)},
	}
	if _, err := b.configMaps().Create(t.Context(), tooLarge, metav1.CreateOptions{}); err == nil {
		t.Error("the API server takes an object of more than 1 MiB: the volumes' limits do not know that")
	}
}

// TestPathsAsUsersWriteThem shows rules 24 to 26 in a mounted volume: the longest path and element, characters of every
// kind, two dots where they are legal, and paths that are cleaned.
func TestPathsAsUsersWriteThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"k": "v"})
	wide := strings.Repeat("x", 255)
	deep := strings.Repeat(wide+"/", 15) + strings.Repeat("y", 127) + "/" + strings.Repeat("z", 128)
	if len(deep) != 4096 {
		t.Fatalf("the long path has %d bytes, want 4096", len(deep))
	}
	paths := []string{deep, strings.Repeat("é", 127), "a/..b", "b/...", "p..", "c/..data", `q"uo'te\ d`, "ü/日本", "foo//bar", "./x", "y/", "z/."}
	clean := map[string]string{"foo//bar": "foo/bar", "./x": "x", "y/": "y", "z/.": "z"}
	var items []string
	for _, p := range paths {
		items = append(items, fmt.Sprintf(`{"key": "k", "path": %q}`, p))
	}
	pod := b.pod("paths", map[string]string{"configMap": "web", "items": "[" + strings.Join(items, ", ") + "]"})
	b.publish(pod)
	for _, value := range []string{"v", "w"} {
		if value != "v" {
			b.updateConfigMap("web", map[string]string{"k": value})
			b.wantFile(pod, "p..", value)
		}
		files := b.files(pod)
		for _, p := range paths {
			if c, ok := clean[p]; ok {
				p = c
			}
			if got, want := files[p], "-rw-r--r-- "+value; got != want {
				t.Errorf("%q is %q, want %q", p, got, want)
			}
		}
	}
}

// TestRefusalsSayWhatUsersKnow is rule 9, each text to the letter, rule 11, several in one, and rule 10: the message is
// nothing but that text, which the kubelet quotes in the Event.
func TestRefusalsSayWhatUsersKnow(t *testing.T) {
	t.Parallel()
	b := newBench(t, "--publish-timeout=200ms")
	b.createConfigMap("part", map[string]string{"a": "1"})
	b.createSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "part"}, Data: map[string][]byte{"a": []byte("1")}})
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
	for name, tt := range tests {
		pod := b.pod("web", tt.attributes)
		err := b.node.Publish(t.Context(), pod, pod.Spec.Volumes[0])
		if code, text := status.Code(err), status.Convert(err).Message(); code != codes.FailedPrecondition || text != tt.want {
			t.Errorf("%s: publish gave %s %q, want %s %q", name, code, text, codes.FailedPrecondition, tt.want)
		}
		b.wantNothing(pod, name)
	}
}

// TestFSGroup shows rules 53 and 54 in a mounted volume, at publish, after an update and after an update by the next run
// of the driver (trap 5). The group is 0, which is one, so that the test needs no other.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	modes := map[string]string{
		"0644": "-rw-r--r--", "0400": "-r--r-----", "0600": "-rw-r-----", "0000": "-r--r-----", "0200": "-rw-r-----",
		"0111": "-r-xr-x--x", "0777": "-rwxrwxrwx",
	}
	var items []string
	for mode := range modes {
		items = append(items, fmt.Sprintf("{key: k, path: d/%s, mode: %s}", mode, mode))
	}
	b.createConfigMap("web", map[string]string{"k": "0"})
	pod := b.pod("group", map[string]string{"configMap": "web", "items": "[" + strings.Join(items, ", ") + "]"})
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(0))}
	exact := b.pod("exact", map[string]string{"configMap": "web", "defaultMode": "0400", "uid": "0"})
	exact.Spec.SecurityContext = pod.Spec.SecurityContext
	b.publish(pod)
	b.publish(exact)
	check := func(value string) {
		t.Helper()
		b.wantFile(pod, "d/0644", value)
		b.wantFile(exact, "k", value)
		want := map[string]string{".": "dgrwxr-xr-x", "d": "dgrwxr-xr-x"}
		for mode, text := range modes {
			want["d/"+mode] = text + " " + value
		}
		b.wantFiles(pod, want)
		b.wantFiles(exact, map[string]string{"k": "-r-------- " + value}) // With a uid, modes are exact.
		if info, err := os.Stat(b.path(pod, ".")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o755 {
			t.Errorf("the root of the volume is %v, %v, want a directory of mode 2755", info, err)
		}
	}
	check("0")
	b.updateConfigMap("web", map[string]string{"k": "1"})
	check("1")
	if err := b.node.Kill(); err != nil {
		t.Fatal(err)
	}
	b.updateConfigMap("web", map[string]string{"k": "2"})
	if err := b.node.StartDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("2")
}

// TestAnImmutableObjectThatIsMadeAnew is rule 60, where we are better (trap 15): a pod that comes later gets the object
// that is there, not the one of the same name that an earlier pod still uses.
func TestAnImmutableObjectThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	create := func(value string) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Immutable: new(true), Data: map[string]string{"k": value}}
		if _, err := b.configMaps().Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("old")
	earlier := b.pod("earlier", map[string]string{"configMap": "fixed"})
	b.publish(earlier)
	b.wantFile(earlier, "k", "old")
	lab.Eventually(t, soon, func() error {
		if got := b.metric("liveconfig_watches"); got != "0" {
			return fmt.Errorf("%s watches of an immutable object, want 0", got)
		}
		return nil
	})
	b.deleteConfigMap("fixed")
	create("new")
	later := b.pod("later", map[string]string{"configMap": "fixed"})
	b.publish(later)
	if got, err := os.ReadFile(b.path(later, "k")); string(got) != "new" {
		t.Errorf("the later pod reads %q, %v, want new", got, err)
	}
	b.wantFile(earlier, "k", "new")
}

// TestEqualBytesKeepTheGeneration is rule 30 (trap 10) for what only an API server can do with an object: a key that
// moves from data to binaryData, and an object that is deleted and made anew.
func TestEqualBytesKeepTheGeneration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	before := b.generation(pod)
	moved := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, BinaryData: map[string][]byte{"color": []byte("red")}}
	if _, err := b.configMaps().Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.deleteConfigMap("web")
	b.wantEvent(pod, "SourceMissing", `configmap "web" not found`)
	b.createConfigMap("web", map[string]string{"color": "red"})
	b.wantEvent(pod, "Projected", "current again")
	if after := b.generation(pod); after != before {
		t.Errorf("generation %s became %s, want it kept", before, after)
	}
	if got := b.metric(`liveconfig_syncs_total{result="written"}`); got != "1" {
		t.Errorf("%s writes, want the one of the publish", got)
	}
}

// TestAnEmptiedObject is rule 48: the names go with the keys, and of an object without keys an empty directory is left,
// to which ..data leads.
func TestAnEmptiedObject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"a": "1", "b": "1"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	b.updateConfigMap("web", map[string]string{"b": "1"})
	b.wantNoFile(pod, "a")
	b.wantFiles(pod, map[string]string{"b": "-rw-r--r-- 1"})
	b.updateConfigMap("web", nil)
	b.wantNoFile(pod, "b")
	b.wantFiles(pod, map[string]string{})
	names, err := os.ReadDir(b.path(pod, "."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name.Name(), "..") {
			t.Errorf("%s is still there", name.Name())
		}
	}
}
