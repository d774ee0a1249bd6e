package manifestsource_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/manifestsource"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// TestMistakesKeepWhatWasGood: and messages show where they are.
func TestMistakesKeepWhatWasGood(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"no YAML": {"web.yaml", configMap("web", "1") + "---\napiVersion: v1\ndata: {\n", "web.yaml, document 2, line "},
		"a number": {
			"web.yaml", "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  port: 6379\n",
			"web.yaml, document 1, line 7: data.port: a value must be a string: put it in quotes",
		},
		"a field with a typo": {
			"web.yaml", configMap("web", "2") + "dta: {}\n", `web.yaml, document 1, line 5: a field that a ConfigMap does not have`,
		},
		"a key that is written twice": {
			"web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  a: x\n  b: x\n  a: z\n",
			"web.yaml, document 1, line 5: a field is written more than once: keep one",
		},
		"no kind":         {"web.yaml", "apiVersion: v1\nmetadata: {name: web}\n", "web.yaml, document 1, line 1: kind is missing"},
		"no object":       {"web.yaml", "- a\n", "web.yaml, document 1, line 1: must be an object"},
		"no name":         {"web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "metadata.name"},
		"no JSON":         {"web.json", "{\n \"kind\": }", "web.json, document 1, line 2"},
		"a list":          {"web.yaml", "kind: List\nitems:\n- kind: Secret\n  apiVersion: v1\n  metadata: {name: x}\n  data: {a: b!}\n", "line 6: data: illegal base64"},
		"a second one":    {"z.yaml", configMap("web", "3"), "configmap default/web is defined more than once: keep one of web.yaml, document 1, line 1 and z.yaml, document 1, line 1"},
		"another version": {"web.yaml", "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: web}\n", "line 1: apiVersion: must be v1"},
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
			s := f.await(web(), "has a problem", fails)
			if !s.Synced || !s.Found || string(s.Content.Data["key"]) != "1" || s.Failing.IsZero() {
				t.Errorf("with a mistake the object is %+v, want what was good", s)
			}
			var p *manifestsource.Problem
			if !errors.As(s.Err, &p) || !strings.Contains(s.Err.Error(), tt.want) {
				t.Errorf("Err = %v, want %q", s.Err, tt.want)
			}
			good = map[string]string{"web.yaml": configMap("web", "4")}
			if tt.file != "web.yaml" {
				good[tt.file] = ""
			}
			write(t, f.dir, good)
			f.await(web(), "good again", holds("4"))
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
	f.await(web(), "understood", holds("1"))
	f.await(twice, "defined once", holds("2"))
}

// TestValuesAreInNoMessage whatever is wrong with them.
func TestValuesAreInNoMessage(t *testing.T) {
	t.Parallel()
	const hush = "m4rkOfAValue7q"
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	for _, text := range []string{
		secret + "stringData: {a: *" + hush + "}\n",
		secret + "stringData: {a: !!int " + hush + "}\n",
		secret + "stringData: {a: !!float '" + hush + "'}\n",
		secret + "stringData: {a: {" + hush + ": " + hush + "}}\n",
		secret + "stringData: {{" + hush + ": x}: " + hush + "}\n",
		secret + "stringData: {[" + hush + "]: " + hush + "}\n",
		secret + "stringData: {password:" + hush + "}\n",
		secret + "stringData: {password " + hush + "}\n",
		secret + "stringData: {" + hush + ": 1}\n",
		secret + "stringData: {" + hush + ": a, " + hush + ": b}\n",
		secret + "stringData:\n  .env: |\n    A=1\nPASSWORD=" + hush + ": x\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata:\n  PASSWORD=" + hush + ": x\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: '" + hush + " " + hush + "', namespace: 'A" + hush + "'}\n",
		secret + "stringData: [" + hush + "]\n",
		secret + "stringData: {a: '" + hush + "}\n",
		secret + "data: {a: " + hush + "!}\n",
		secret + "stringData:\n  a: %" + hush + "\n  b: @" + hush + "\n",
		secret + "stringData:\n  <<: " + hush + "\n",
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

// TestAFileThatIsBeingWritten is not read before it is closed, whatever else changes meanwhile: neither one that was there nor
// a new one.
func TestAFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	mark, late := key(api.ConfigMap, "default", "mark"), key(api.ConfigMap, "default", "late")
	f.use(web())
	f.use(mark)
	f.use(late)
	old, err := os.Create(filepath.Join(f.dir, "web.yaml"))
	expect.NoError(t, err)
	young, err := os.Create(filepath.Join(f.dir, "late.yaml"))
	expect.NoError(t, err)
	text := configMap("web", "2")
	mustPrint(t, old, text[:20])
	mustPrint(t, young, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late}\n") // It is whole, and has no data yet.
	for i := range 5 {
		write(t, f.dir, map[string]string{"mark.yaml": configMap("mark", fmt.Sprint(i))})
		f.await(mark, "another file", holds(fmt.Sprint(i)))
		<-time.After(vanishTime)
		if s := f.Get(web()); !holds("1")(s) {
			t.Fatalf("while its file is written the object is %+v, want what it was", s)
		}
		if s := f.Get(late); s.Found || s.Synced {
			t.Fatalf("while its new file is written the object is %+v, want it to be unknown", s)
		}
	}
	mustPrint(t, old, text[20:])
	mustPrint(t, young, "data: {key: '3'}\n")
	expect.NoError(t, old.Close())
	expect.NoError(t, young.Close())
	f.await(web(), "closed", holds("2"))
	f.await(late, "closed", holds("3"))
}

// vanishTime is longer than an object is kept that no file defines any more.
const vanishTime = 150 * time.Millisecond

func mustPrint(t *testing.T, file *os.File, text string) {
	t.Helper()
	_, err := file.WriteString(text)
	expect.NoError(t, err)
}

// TestAnEmptyFileKeepsItsObjects: a disk may be full. A file that goes takes them along.
func TestAnEmptyFileKeepsItsObjects(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"web.yaml": configMap("web", "1")})
	f.use(web())
	expect.NoError(t, os.WriteFile(filepath.Join(f.dir, "web.yaml"), nil, 0o600))
	s := f.await(web(), "its file is empty", fails)
	if !s.Found || !strings.Contains(s.Err.Error(), "web.yaml: the file is empty") {
		t.Errorf("with an empty file the object is %+v, want what it was", s)
	}
	write(t, f.dir, map[string]string{"web.yaml": ""})
	f.await(web(), "its file is gone", isGone)
}

// TestAnObjectThatMovesToAFileWithAMistakeStays.
func TestAnObjectThatMovesToAFileWithAMistakeStays(t *testing.T) {
	t.Parallel()
	f := follow(t, map[string]string{"a.yaml": configMap("web", "1"), "b.yaml": configMap("other", "1")})
	f.use(web())
	write(t, f.dir, map[string]string{"b.yaml": configMap("other", "1") + "---\n" + configMap("web", "2") + "oops\n"})
	write(t, f.dir, map[string]string{"a.yaml": ""}) // Later: between the two steps an object that no file defines may be deleted.
	f.await(web(), "moved", fails)
	<-time.After(vanishTime)
	if s := f.Get(web()); !s.Found {
		t.Errorf("the object is %+v, want it to be kept", s)
	}
}

// TestDocumentsThatWouldBeLost are read, or are a mistake.
func TestDocumentsThatWouldBeLost(t *testing.T) {
	t.Parallel()
	one := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"key": "1"}}`
	other := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"key": "2"}}`
	f := follow(t, map[string]string{"a.json": one + "\n" + other + "\n", "kustomization.yaml": "resources: [a.json]\n"})
	for k, value := range map[source.Key]string{web(): "1", key(api.ConfigMap, "default", "other"): "2"} {
		f.use(k)
		f.await(k, "a stream of JSON", holds(value))
	}
	for _, text := range []string{one + "\n" + other, configMap("web", "1") + "...\n" + configMap("other", "2"), "--- " + one + "\n--- " + other} {
		if got := follow(t, map[string]string{"a.yaml": text}).Problems(); len(got) != 1 {
			t.Errorf("problems with %q: %v, want one", text, got)
		}
	}
}
