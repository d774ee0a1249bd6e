package manifests_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/manifests"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
)

// soon is many times what a change takes.
const soon = 30 * time.Second

// fixture is a directory of manifests that is followed.
type fixture struct {
	*manifests.Directory

	t       *testing.T
	dir     string
	changed chan source.Key
	stop    func()
	budget  *budget.Budget
}

// write puts files into a directory, each in one step. No text is a file that goes.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if text == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// follow starts to follow a directory with the files.
func follow(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return followDir(t, dir)
}

func followDir(t *testing.T, dir string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: dir, changed: make(chan source.Key, 1000), budget: budget.New(64 << 20)}
	ctx, stop := context.WithCancel(context.Background())
	d, err := manifests.New(ctx, manifests.Config{
		Dir: dir, Changed: func(key source.Key) { f.changed <- key }, Room: f.budget.Part(func(int64) {}),
	})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	f.Directory = d
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

func key(kind api.Kind, namespace, name string) source.Key {
	return source.Key{Ref: api.Ref{Kind: kind, Namespace: namespace, Name: name}, Identity: identity.Driver()}
}

func web() source.Key { return key(api.ConfigMap, "default", "web") }

// use acquires an object for as long as the test.
func (f *fixture) use(k source.Key) {
	f.t.Helper()
	release, err := f.Acquire(k)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(release)
}

// await waits until an object is as wanted.
func (f *fixture) await(k source.Key, what string, is func(source.Snapshot) bool) source.Snapshot {
	f.t.Helper()
	limit := time.After(soon)
	for {
		if s := f.Get(k); is(s) {
			return s
		}
		select {
		case <-f.changed:
		case <-limit:
			f.t.Fatalf("%s is not as it should be (%s): %+v, problems %v", k, what, f.Get(k), f.Problems())
		}
	}
}

func holds(name, value string) func(source.Snapshot) bool {
	return func(s source.Snapshot) bool { return s.Found && string(s.Content.Data[name]) == value && s.Err == nil }
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: %q}\n", name, value)
}

func TestEveryWayToWriteAnObject(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{
		"several.yaml": "# A comment of its own.\n---\n" + configMap("web", "1") + "---\n---\n" + configMap("other", "2"),
		"list.yml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {k: v}}\n" +
			"- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n",
		"secret.json": "{\n\t\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"type\": \"Opaque\", \"metadata\": {\"name\": \"s\"},\n" +
			"\t\"data\": {\"a\": \"" + base64.StdEncoding.EncodeToString([]byte{0, 1, 255}) + "\", \"b\": \"eA==\"},\n" +
			"\t\"stringData\": {\"b\": \"\\ud83d\\ude00\"}}",
		"binary.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\nbinaryData: {raw: //4=}\ndata: {empty: , text: 'yes'}\nimmutable: true\n",
		"notes.txt":   "no manifest: {",
		"other.yaml":  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
	})
	for _, tt := range []struct {
		key       source.Key
		want      map[string][]byte
		immutable bool
	}{
		{key: web(), want: map[string][]byte{"key": []byte("1")}},
		{key: key(api.ConfigMap, "default", "other"), want: map[string][]byte{"key": []byte("2")}},
		{key: key(api.ConfigMap, "shop", "a"), want: map[string][]byte{"k": []byte("v")}},
		{key: key(api.Secret, "default", "s"), want: map[string][]byte{"a": {0, 1, 255}, "b": []byte("😀")}},
		{
			key:  key(api.ConfigMap, "default", "b"),
			want: map[string][]byte{"raw": {255, 254}, "empty": {}, "text": []byte("yes")}, immutable: true,
		},
	} {
		f.use(tt.key)
		s := f.Get(tt.key)
		if diff := cmp.Diff(tt.want, s.Content.Data); !s.Synced || !s.Found || s.Err != nil || s.Content.Immutable != tt.immutable || diff != "" {
			t.Errorf("%s is %+v (-want +got):\n%s", tt.key, s, diff)
		}
	}
	if got := f.Problems(); len(got) > 0 {
		t.Errorf("Problems = %v, want none", got)
	}
	if got := f.Objects(); got != 5 {
		t.Errorf("Objects = %d, want 5", got)
	}
	missing := key(api.Secret, "default", "web")
	f.use(missing)
	if s := f.Get(missing); !s.Synced || s.Found || s.Err != nil {
		t.Errorf("%s is %+v, want it to be known not to exist", missing, s)
	}
}

func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	f.use(web())
	late := key(api.ConfigMap, "default", "late")
	f.use(late)
	first := f.await(web(), "first", holds("key", "1"))
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "2")})
	second := f.await(web(), "second", holds("key", "2"))
	if first.Content.UID != second.Content.UID || first.Content.ResourceVersion == second.Content.ResourceVersion {
		t.Errorf("the first is %v and the second %v, want one object in two versions", first.Content, second.Content)
	}
	if second.Content.ChangedAt.IsZero() || !first.Content.ChangedAt.IsZero() {
		t.Errorf("changed at %v and %v, want a time for the change alone", first.Content.ChangedAt, second.Content.ChangedAt)
	}
	write(t, f.dir, map[string]string{"new.yaml": configMap("late", "3")})
	f.await(late, "it appears", holds("key", "3"))
	write(t, f.dir, map[string]string{"new.yaml": ""})
	f.await(late, "it goes", func(s source.Snapshot) bool { return s.Synced && !s.Found })
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "1")})
	third := f.await(web(), "as at first", holds("key", "1"))
	if third.Content.ResourceVersion != first.Content.ResourceVersion {
		t.Errorf("the versions of equal content are %s and %s", first.Content.ResourceVersion, third.Content.ResourceVersion)
	}
}

// TestAFileThatIsRewrittenInItsPlace is what editors do that keep the inode: the file is empty for a moment.
func TestAFileThatIsRewrittenInItsPlace(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	f.use(web())
	for i := range 20 {
		file, err := os.Create(filepath.Join(f.dir, "web.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text, value := "", fmt.Sprint(i+2)
		text = configMap("web", value)
		for _, half := range []string{text[:30], text[30:]} {
			if _, err := file.WriteString(half); err != nil {
				t.Fatal(err)
			}
			if s := f.Get(web()); !s.Found {
				t.Fatalf("while the file is written the object is %+v, want it to be there", s)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		f.await(web(), "rewritten", holds("key", value))
	}
}

// TestNothingChangesWithoutNews: a comment, another order, and a file that is read again change no version.
func TestNothingChangesWithoutNews(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: x, b: z}\n"})
	f.use(web())
	mark := key(api.ConfigMap, "default", "mark")
	f.use(mark)
	before := f.Get(web())
	write(t, f.dir, map[string]string{
		"web.yaml":  "# A comment.\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: web, labels: {a: b}}\ndata: {b: z, a: x}\n",
		"mark.yaml": configMap("mark", "1"),
	})
	f.await(mark, "the mark", holds("key", "1"))
	if diff := cmp.Diff(before.Content.ResourceVersion, f.Get(web()).Content.ResourceVersion); diff != "" {
		t.Errorf("version (-before +after):\n%s", diff)
	}
	for len(f.changed) > 0 {
		if k := <-f.changed; k == web() {
			t.Error("an equal object was reported as changed")
		}
	}
}

func TestImmutableObjectsAreOthersWithOtherData(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1") + "immutable: true\n"})
	f.use(web())
	before := f.Get(web())
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "2") + "immutable: true\n"})
	after := f.await(web(), "replaced", holds("key", "2"))
	if before.Content.UID == after.Content.UID {
		t.Errorf("both have UID %s, want two objects", after.Content.UID)
	}
}

// TestMistakesKeepWhatWasGood: and say where they are.
func TestMistakesKeepWhatWasGood(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"no YAML": {"web.yaml", configMap("web", "1") + "---\napiVersion: v1\ndata: {\n", "web.yaml, document 2, line "},
		"a number": {
			"web.yaml", "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  port: 6379\n",
			"web.yaml, document 1, line 7: data.port: must be a string: put it in quotes",
		},
		"a field with a typo": {
			"web.yaml", configMap("web", "2") + "dta: {}\n", `web.yaml, document 1, line 5: dta: ConfigMap has no field "dta"`,
		},
		"a key that is written twice": {
			"web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  a: x\n  b: x\n  a: z\n",
			"web.yaml, document 1, line 5: data.a: is written more than once, keep one",
		},
		"no kind":       {"web.yaml", "metadata: {name: web}\n", "web.yaml, document 1, line 1: kind is missing"},
		"no object":     {"web.yaml", "- a\n", "web.yaml, document 1, line 1: must be an object"},
		"no name":       {"web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "metadata.name"},
		"no JSON":       {"web.json", "{\n \"kind\": }", "web.json, document 1, line 2"},
		"a list":        {"web.yaml", "kind: List\nitems:\n- kind: Secret\n  apiVersion: v1\n  metadata: {name: x}\n  data: {a: b!}\n", "line 6: items[0].data.a: illegal base64"},
		"a second one":  {"z.yaml", configMap("web", "3"), "configmap default/web is defined more than once: keep one of web.yaml, document 1, line 1 and z.yaml, document 1, line 1"},
		"another group": {"web.yaml", "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: web}\n", "line 1: apiVersion: must be v1"},
		"too much": {
			"web.yaml", configMap("web", strings.Repeat("x", 1<<20+1)), "the API server refuses 1048577 bytes, the most is 1048576",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := map[string]string{"web.yaml": configMap("web", "1")}
			if tt.file == "web.json" {
				good = map[string]string{"web.json": `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "web"}, "data": {"key": "1"}}`}
			}
			f := follow(t, good)
			f.use(web())
			write(t, f.dir, map[string]string{tt.file: tt.text})
			s := f.await(web(), "has a problem", func(s source.Snapshot) bool { return s.Err != nil })
			if !s.Synced || !s.Found || string(s.Content.Data["key"]) != "1" || s.Failing.IsZero() {
				t.Errorf("with a mistake the object is %+v, want what was good", s)
			}
			var p *manifests.Problem
			if !errors.As(s.Err, &p) || !strings.Contains(s.Err.Error(), tt.want) {
				t.Errorf("Err = %v, want %q", s.Err, tt.want)
			}
			good = map[string]string{"web.yaml": configMap("web", "4")}
			if tt.file != "web.yaml" {
				good[tt.file] = ""
			}
			write(t, f.dir, good)
			f.await(web(), "good again", holds("key", "4"))
			if got := f.Problems(); len(got) > 0 {
				t.Errorf("Problems = %v, want none", got)
			}
		})
	}
}

// TestWhatWasNeverGoodIsUnknown: an object that no file defines may be in the one that is not understood.
func TestWhatWasNeverGoodIsUnknown(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": "kind: [", "twice.yaml": configMap("twice", "1") + "---\n" + configMap("twice", "2")})
	twice := key(api.ConfigMap, "default", "twice")
	f.use(web())
	f.use(twice)
	for _, k := range []source.Key{web(), twice} {
		if s := f.Get(k); s.Synced || s.Found || s.Err == nil {
			t.Errorf("%s is %+v, want it to be unknown with a reason", k, s)
		}
	}
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "1"), "twice.yaml": configMap("twice", "2")})
	f.await(web(), "understood", holds("key", "1"))
	f.await(twice, "defined once", holds("key", "2"))
}

// TestValuesAreInNoMessage whatever is wrong with them.
func TestValuesAreInNoMessage(t *testing.T) {
	t.Parallel()
	const hush = "m4rkOfAValue7q"
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: *" + hush + "}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: !!int " + hush + "}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: !!float '" + hush + "'}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: {" + hush + ": " + hush + "}}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {{" + hush + ": x}: " + hush + "}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {[" + hush + "]: " + hush + "}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: [" + hush + "]\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: '" + hush + "}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: " + hush + "!}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: %" + hush + "\n  b: @" + hush + "\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  <<: " + hush + "\n",
		"{\"kind\": \"Secret\", \"apiVersion\": \"v1\", \"stringData\": {\"a\": " + hush + "}}",
		"%YAML " + hush + "\n---\nkind: Secret\n",
		hush + "\n",
	} {
		f := follow(t, map[string]string{"s.yaml": text})
		if len(f.Problems()) == 0 {
			t.Errorf("no problem with %q", text)
		}
		for _, p := range f.Problems() {
			if strings.Contains(p.Error(), hush) {
				t.Errorf("the problem with %q shows a value: %v", text, p)
			}
		}
	}
}

// TestTheDirectoryIsSwapped as the kubelet swaps one: by the link ..data.
func TestTheDirectoryIsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(generation string, files map[string]string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, generation), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, generation), files)
		if err := os.Symlink(generation, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", map[string]string{"web.yaml": configMap("web", "1")})
	if err := os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	f := followDir(t, dir)
	f.use(web())
	f.await(web(), "the first", holds("key", "1"))
	for i := 2; i < 10; i++ {
		swap(fmt.Sprintf("..%d", i), map[string]string{"web.yaml": configMap("web", fmt.Sprint(i))})
		f.await(web(), "the next", holds("key", fmt.Sprint(i)))
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i-1))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALinkToTheDirectory is followed when it is turned to another one.
func TestALinkToTheDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, generation := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(top, generation), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(top, generation), map[string]string{"web.yaml": configMap("web", generation)})
	}
	link := filepath.Join(top, "..data")
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	f := followDir(t, link)
	f.use(web())
	f.await(web(), "the first", holds("key", "1"))
	if err := os.Symlink("2", link+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"_tmp", link); err != nil {
		t.Fatal(err)
	}
	f.await(web(), "the second", holds("key", "2"))
}

// TestADirectoryThatGoesTakesNothingAlong and that comes back is followed again.
func TestADirectoryThatGoesTakesNothingAlong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"web.yaml": configMap("web", "1")})
	f := followDir(t, dir)
	f.use(web())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s := f.await(web(), "the directory is gone", func(s source.Snapshot) bool { return s.Err != nil })
	if !s.Found || string(s.Content.Data["key"]) != "1" {
		t.Errorf("without its directory the object is %+v, want what it was", s)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"web.yaml": configMap("web", "2")})
	f.await(web(), "the directory is back", holds("key", "2"))
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	_, err := manifests.New(t.Context(), manifests.Config{
		Dir: filepath.Join(t.TempDir(), "not"), Changed: func(source.Key) {}, Room: b.Part(func(int64) {}),
	})
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("New = %v, want that there is no such directory", err)
	}
}

func TestOtherNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	pod := api.Pod{Namespace: "shop", Name: "p", UID: "u", ServiceAccount: "default"}
	k := web()
	k.Identity = f.Choose(pod, k.Ref)
	_, err := f.Acquire(k)
	var refused *source.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "configmap default/web: with --manifests a pod reads the objects of its own namespace only") {
		t.Errorf("Acquire = %v, want a refusal that says why", err)
	}
	if s := f.Get(k); s.Synced || s.Found {
		t.Errorf("Get = %+v, want nothing", s)
	}
	pod.Namespace = "default"
	if got := f.Choose(pod, k.Ref); got != identity.Driver() {
		t.Errorf("Choose = %s, want the driver", got)
	}
}

// TestRoom is taken for what is in use, and what there is none for is not taken.
func TestRoom(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1"), "other.yaml": configMap("other", "1")})
	if used := f.budget.Used(); used != 0 {
		t.Errorf("%d bytes are used of objects that nobody uses, want none", used)
	}
	other := f.budget.Part(func(int64) {}).Account()
	release, err := f.Acquire(web())
	if err != nil {
		t.Fatal(err)
	}
	if used := f.budget.Used(); used == 0 {
		t.Error("no bytes are used of an object in use")
	}
	other.Force(f.budget.Limit())
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", strings.Repeat("x", 100_000))})
	s := f.await(web(), "no room", func(s source.Snapshot) bool { return s.Err != nil })
	if string(s.Content.Data["key"]) != "1" {
		t.Errorf("without room the object is %v, want what it was", s.Content)
	}
	other.Close()
	f.await(web(), "room again", holds("key", strings.Repeat("x", 100_000)))
	release()
	release()
	if used := f.budget.Used(); used != 0 {
		t.Errorf("%d bytes are used after the last user, want none", used)
	}
}
