package driver

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

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
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
}

// TestTheLargestObjects is rule 17: each of two sources holds all that an object can, and changes as a whole.
func TestTheLargestObjects(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	const mebibyte = 1 << 20
	full := mebibyte - len(environment.Marked(""))
	b.CreateConfigMap("large", map[string]string{"value": strings.Repeat("1", full)})
	b.SetSecret("large", map[string]string{"secret": strings.Repeat("s", full)})
	pod := b.Pod("large", map[string]string{"sources": "[{configMap: {name: large}}, {secret: {name: large}}]"})
	b.Publish(pod)
	for _, digit := range []string{"2", "3"} {
		b.UpdateConfigMap("large", map[string]string{"value": strings.Repeat(digit, full)})
		environment.Eventually(t, soon, func() error {
			got, err := os.ReadFile(b.Path(pod, "value"))
			if err != nil || string(got) != environment.Marked(strings.Repeat(digit, full)) {
				return fmt.Errorf("value has %d bytes, %w, want %d times %s", len(got), err, mebibyte, digit)
			}
			return nil
		})
	}
	if info, err := os.Stat(b.Path(pod, "secret")); err != nil || info.Size() != mebibyte {
		t.Errorf("the secret is %v, %v, want %d bytes", info, err, mebibyte)
	}
	tooLarge := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "larger"}, Data: map[string]string{"value": environment.Marked(strings.Repeat("1", full+1))},
	}
	if _, err := b.ConfigMaps().Create(t.Context(), tooLarge, metav1.CreateOptions{}); err == nil {
		t.Error("the API server takes an object of more than 1 MiB: the volumes' limits do not know that")
	}
}

// TestPathsAsUsersWriteThem shows rules 24 to 26 in a mounted volume: the longest path and element, characters of every
// kind, two dots where they are legal, and paths that are cleaned.
func TestPathsAsUsersWriteThem(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.CreateConfigMap("web", map[string]string{"k": "v"})
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
	pod := b.Pod("paths", map[string]string{"configMap": "web", "items": "[" + strings.Join(items, ", ") + "]"})
	b.Publish(pod)
	for _, value := range []string{"v", "w"} {
		if value != "v" {
			b.UpdateConfigMap("web", map[string]string{"k": value})
			b.WantFile(pod, "p..", value)
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

// TestFSGroup shows rules 53 and 54 in a mounted volume, at publish, after an update and after an update by the next run
// of the driver (trap 5). The group is 0, which is one, so that the test needs no other.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	modes := map[string]string{
		"0644": "-rw-r--r--", "0400": "-r--r-----", "0600": "-rw-r-----", "0000": "-r--r-----", "0200": "-rw-r-----",
		"0111": "-r-xr-x--x", "0777": "-rwxrwxrwx",
	}
	var items []string
	for mode := range modes {
		items = append(items, fmt.Sprintf("{key: k, path: d/%s, mode: %s}", mode, mode))
	}
	b.CreateConfigMap("web", map[string]string{"k": "0"})
	pod := b.Pod("group", map[string]string{"configMap": "web", "items": "[" + strings.Join(items, ", ") + "]"})
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(0))}
	exact := b.Pod("exact", map[string]string{"configMap": "web", "defaultMode": "0400", "uid": "0"})
	exact.Spec.SecurityContext = pod.Spec.SecurityContext
	b.Publish(pod)
	b.Publish(exact)
	check := func(value string) {
		t.Helper()
		b.WantFile(pod, "d/0644", value)
		b.WantFile(exact, "k", value)
		want := map[string]string{".": "dgrwxr-xr-x", "d": "dgrwxr-xr-x"}
		for mode, text := range modes {
			want["d/"+mode] = text + " " + value
		}
		b.wantFiles(pod, want)
		b.wantFiles(exact, map[string]string{"k": "-r-------- " + value}) // With a uid, modes are exact.
		if info, err := os.Stat(b.Path(pod, ".")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o755 {
			t.Errorf("the root of the volume is %v, %v, want a directory of mode 2755", info, err)
		}
	}
	check("0")
	b.UpdateConfigMap("web", map[string]string{"k": "1"})
	check("1")
	b.Kill()
	b.UpdateConfigMap("web", map[string]string{"k": "2"})
	b.Start()
	check("2")
}

// TestAnImmutableObjectThatIsMadeAnew is rule 60, where we are better (trap 15): a pod that comes later gets the object
// that is there, not the one of the same name that an earlier pod still uses. This is fault 25.
func TestAnImmutableObjectThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	create := func(value string) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Immutable: new(true), Data: kit.Marked(map[string]string{"k": value})}
		if _, err := b.ConfigMaps().Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("old")
	earlier := b.Pod("earlier", map[string]string{"configMap": "fixed"})
	b.Publish(earlier)
	b.WantFile(earlier, "k", "old")
	environment.Eventually(t, soon, func() error {
		if got := b.Metric("liveconfig_watches"); got != "0" {
			return fmt.Errorf("%s watches of an immutable object, want 0", got)
		}
		return nil
	})
	b.DeleteConfigMap("fixed")
	create("new")
	later := b.Pod("later", map[string]string{"configMap": "fixed"})
	b.Publish(later)
	if got, err := os.ReadFile(b.Path(later, "k")); environment.Unmarked(string(got)) != "new" {
		t.Errorf("the later pod reads %q, %v, want new", got, err)
	}
	b.WantFile(earlier, "k", "new")
}

// TestEqualBytesKeepTheGeneration is rule 30 (trap 10), and fault 8: an annotation and a key that no item names change, a key
// moves from data to binaryData, and the object is deleted and made again.
func TestEqualBytesKeepTheGeneration(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	cm := b.CreateConfigMap("web", map[string]string{"color": "red", "unused": "1"})
	pod := b.Pod("web", map[string]string{"configMap": "web", "items": "[{key: color, path: color}]"})
	b.Publish(pod)
	before, looks := b.Generation(pod), b.Number(foundUnchanged)
	cm.Annotations, cm.Data["unused"] = map[string]string{"note": "nothing a file shows"}, environment.Marked("2")
	if _, err := b.ConfigMaps().Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.wantMore(foundUnchanged, looks)
	moved := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, BinaryData: map[string][]byte{"color": []byte(environment.Marked("red"))}}
	if _, err := b.ConfigMaps().Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.DeleteConfigMap("web")
	b.WantEvent(pod, "SourceMissing", `configmap "web" not found`)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	b.WantEvent(pod, "Projected", "current again")
	if after := b.Generation(pod); after != before {
		t.Errorf("generation %s became %s, want it kept", before, after)
	}
	if got := b.Metric(`liveconfig_syncs_total{result="written"}`); got != "1" {
		t.Errorf("%s writes, want the one of the publish", got)
	}
}
