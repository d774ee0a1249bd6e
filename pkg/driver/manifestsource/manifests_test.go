package manifestsource_test

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
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/manifestsource"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// soon is many times what a change takes.
const soon = 30 * time.Second

// fixture is a directory of manifests that is followed.
type fixture struct {
	*manifestsource.Directory

	t       *testing.T
	dir     string
	changed chan source.Key
	stop    func()
	budget  *budget.Budget
}

// write puts files into a directory, which it makes, each in one step. No text is a file that goes.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(dir, 0o700))
	for name, text := range files {
		path := filepath.Join(dir, name)
		if text == "" {
			expect.NoError(t, os.Remove(path))
			continue
		}
		expect.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		expect.NoError(t, os.Rename(path+".new", path))
	}
}

// follow starts to follow a directory with the files.
func follow(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return followDir(t, dir)
}

// followDir returns when the directory was read once.
func followDir(t *testing.T, dir string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: dir, changed: make(chan source.Key, 1000), budget: budget.New(64 << 20)}
	d, err := manifestsource.New(manifestsource.Config{
		Dir: dir, Changed: func(key source.Key) { f.changed <- key }, Room: f.budget.Part(func(int64) {}),
	})
	expect.NoError(t, err)
	f.Directory = d
	first := key(api.ConfigMap, "default", "first")
	giveBack, err := f.Acquire(first)
	expect.NoError(t, err)
	defer giveBack()
	if s := f.Get(first); s.Synced || s.Err != nil {
		t.Errorf("before Run an object is %+v, want nothing known", s)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	f.await(first, "read", func(s source.Snapshot) bool { return s.Synced || s.Err != nil })
	return f
}

func key(kind api.Kind, namespace, name string) source.Key {
	return source.Key{Ref: api.Ref{Kind: kind, Namespace: namespace, Name: name}, Identity: identity.Driver()}
}

func web() source.Key { return key(api.ConfigMap, "default", "web") }

// use acquires an object for as long as the test.
func (f *fixture) use(k source.Key) {
	f.t.Helper()
	giveBack, err := f.Acquire(k)
	expect.NoError(f.t, err)
	f.t.Cleanup(giveBack)
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

// holds reports whether an object is current and has a value under its only key.
func holds(value string) func(source.Snapshot) bool {
	return func(s source.Snapshot) bool { return s.Found && string(s.Content.Data["key"]) == value && s.Err == nil }
}

func isGone(s source.Snapshot) bool { return s.Synced && !s.Found }

func fails(s source.Snapshot) bool { return s.Err != nil }

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: %q}\n", name, value)
}

func TestEveryWayToWriteAnObject(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{
		"several.yaml": "# A separate comment.\n---\n" + configMap("web", "1") + "---\n---\n" + configMap("other", "2"),
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
	first := f.await(web(), "first", holds("1"))
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "2")})
	second := f.await(web(), "second", holds("2"))
	if first.Content.UID != second.Content.UID || first.Content.ResourceVersion == second.Content.ResourceVersion {
		t.Errorf("the first is %v and the second %v, want one object in two versions", first.Content, second.Content)
	}
	if second.Content.ChangedAt.IsZero() || !first.Content.ChangedAt.IsZero() {
		t.Errorf("changed at %v and %v, want a time for the change alone", first.Content.ChangedAt, second.Content.ChangedAt)
	}
	write(t, f.dir, map[string]string{"new.yaml": configMap("late", "3")})
	there := f.await(late, "it appears", holds("3"))
	write(t, f.dir, map[string]string{"new.yaml": ""})
	gone := f.await(late, "it goes", isGone)
	if !gone.Changed.After(there.Changed) {
		t.Errorf("gone since %v, want a time after %v: an object that is replaced takes no file away (fault 25)", gone.Changed, there.Changed)
	}
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", "1")})
	third := f.await(web(), "as at first", holds("1"))
	if third.Content.ResourceVersion != first.Content.ResourceVersion {
		t.Errorf("the versions of equal content are %s and %s", first.Content.ResourceVersion, third.Content.ResourceVersion)
	}
}

// TestAFileThatIsRewrittenInItsPlace is what editors do that keep the inode: the file is empty for a moment.
func TestAFileThatIsRewrittenInItsPlace(t *testing.T) {
	t.Parallel()
	rewrite(t, 20)
}

func rewrite(t *testing.T, times int) {
	t.Helper()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	f.use(web())
	for i := range times {
		file, err := os.Create(filepath.Join(f.dir, "web.yaml"))
		expect.NoError(t, err)
		value := fmt.Sprint(i + 2)
		text := configMap("web", value)
		for _, half := range []string{text[:30], text[30:]} {
			mustPrint(t, file, half)
			if s := f.Get(web()); !s.Found {
				t.Fatalf("while the file is written the object is %+v, want it to be there", s)
			}
		}
		expect.NoError(t, file.Close())
		f.await(web(), "rewritten", holds(value))
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
	f.await(mark, "the mark", holds("1"))
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
	after := f.await(web(), "replaced", holds("2"))
	if before.Content.UID == after.Content.UID {
		t.Errorf("both have UID %s, want two objects", after.Content.UID)
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

func TestSelectionsAreRefused(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	k := web()
	k.Ref.Name, k.Selector = "", "app=web"
	_, err := f.Acquire(k)
	var refused *source.RefusedError
	const want = "configmaps in default: with --manifests a source has to name its object"
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
		t.Errorf("Acquire = %v, want a refusal that says why", err)
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
	giveBack, err := f.Acquire(web())
	expect.NoError(t, err)
	if used := f.budget.Used(); used == 0 {
		t.Error("no bytes are used of an object in use")
	}
	other.Force(f.budget.Limit())
	write(t, f.dir, map[string]string{"web.yaml": configMap("web", strings.Repeat("x", 100_000))})
	s := f.await(web(), "no room", fails)
	if string(s.Content.Data["key"]) != "1" {
		t.Errorf("without room the object is %v, want what it was", s.Content)
	}
	other.Close()
	f.await(web(), "room again", holds(strings.Repeat("x", 100_000)))
	giveBack()
	giveBack()
	if used := f.budget.Used(); used != 0 {
		t.Errorf("%d bytes are used after the last user, want none", used)
	}
}
