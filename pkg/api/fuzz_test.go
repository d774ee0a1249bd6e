package api_test

import (
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// fuzzed is one input of FuzzParse. The bits of present show which of the attributes are there, so that an empty value is
// not the same as none.
type fuzzed struct {
	present                                      uint16
	configMap, secret, namespace, items, sources string
	rest                                         string // The other known attributes all get this one.
	key, value                                   string // Any attribute.
}

func (f fuzzed) attributes() attributes {
	all := []struct{ key, value string }{
		{api.KeyConfigMap, f.configMap},
		{api.KeySecret, f.secret},
		{api.KeyNamespace, f.namespace},
		{api.KeyItems, f.items},
		{api.KeySources, f.sources},
		{api.KeyOptional, f.rest},
		{api.KeyDefaultMode, f.rest},
		{api.KeyUID, f.rest},
		{api.KeyGID, f.rest},
		{api.KeyUpdatePolicy, f.rest},
		{api.KeyOnDelete, f.rest},
		{f.key, f.value},
	}
	in := attributes{}
	for i, a := range all {
		if f.present&(1<<i) != 0 {
			in[a.key] = a.value
		}
	}
	return in
}

// The bits of fuzzed.present.
const (
	hasConfigMap = 1 << iota
	hasSecret
	hasNamespace
	hasItems
	hasSources
	hasOptional
	hasDefaultMode
	hasUID
	hasGID
	hasUpdatePolicy
	hasOnDelete
	hasOther
)

func addSeeds(f *testing.F) {
	f.Helper()
	add := func(s fuzzed) {
		f.Add(s.present, s.configMap, s.secret, s.namespace, s.items, s.sources, s.rest, s.key, s.value)
	}
	for _, rest := range []string{"0440", "0o644", "0", "2147483647", "true", "Atomic", "Remove", "493", "", "-1"} {
		const present = hasConfigMap | hasOptional | hasDefaultMode | hasUID | hasGID | hasUpdatePolicy | hasOnDelete
		add(fuzzed{present: present, configMap: "app", rest: rest})
	}
	for _, key := range []string{"configmap", "csi.storage.k8s.io/pod.name", "", "a\nb", "secretName"} {
		add(fuzzed{present: hasSecret | hasNamespace | hasOther, secret: "tls", namespace: "shared", key: key, value: "x"})
	}
	for _, items := range seedItems() {
		add(fuzzed{present: hasConfigMap | hasItems, configMap: "app", items: items})
		add(fuzzed{present: hasSources, sources: "- configMap: {name: app}\n- secret: {name: tls, items: " + items + "}\n"})
	}
	for _, sources := range seedSources() {
		add(fuzzed{present: hasSources, sources: sources})
	}
	for _, values := range seedValues() {
		add(fuzzed{present: hasSources | hasOther, sources: "[{configMap: {name: a, expand: {}}}]", key: api.KeyValues, value: values})
	}
	for _, points := range []string{"[]", "[custom, conf.d/extra]", "[{path: web.conf, ifAbsent: true}]", "[a, ./a, ../b, a/b/]", strings.Repeat("[", 99), "- " + laughs(3)} {
		add(fuzzed{present: hasConfigMap | hasOther, configMap: "a", key: api.KeyMountPoints, value: points})
	}
}

func seedValues() []string {
	return []string{
		"[]", "[{secret: {name: db, prefix: DB_}}]", "[{configMap: {name: r, items: [{key: a, path: REGION}], optional: true}}]",
		"[{pod: {name: POD, uid: UID}}]", "[{pod: {name: POD}, secret: {name: a}}]", "[{secret: {name: a, labelSelector: {}}}]", laughs(3),
	}
}

func seedItems() []string {
	return []string{
		"", "[]", "null", "[{key: a, path: a}]", `[{"key":"a","path":"b/c","mode":256}]`,
		"\n- key: a\n  path: b\n  mode: 0600\n", "- {key: a, path: a//b}\n- {key: b, path: ./a/b/}\n",
		"[{key: a, path: ./..data_tmp}]", "[{key: a, path: p/..p/p../p..p}]", "[{key: a, path: foo}, {key: b, path: foo/bar}]",
		"[{key: a, path: ../x, mode: 644}]", `[{key: a, path: "\x00"}]`, "[{key: a, path: !!binary /w==}]",
		"[{key: y, path: 8080, mode: 4.2e2}]", "[{key: a, key: b, path: c}]", "[{? [a] : b, ~: c, 5: d}]",
		"[&a {key: k, path: p}, {<<: *a, path: q}]", "[{key: &k a, path: b}, {key: *k, path: c}]", "&a [*a]",
		"[{key: a, path: a}]\nbogus: 1", "- {key: a, path: a}\n---\n- {key: b, path: b}\n", "[{key: a, path: é\u2028x}]",
		"[!!null [a], {key: k, path: p}]", "[!!null {key: a}]", "[{key: !!str 5, path: !!int \"7\"}]", "{key: a, value: b}",
		"[{key: |\n  a\n, path: >-\n  b\n}]", "%YAML 1.1\n---\n[{key: a, path: b}]", "[[{key: a}]]", "[[[[[[[[", "\xff\xfe[]", "\f",
	}
}

func seedSources() []string {
	return []string{
		"[]", "[{}, ~]", "[{configMap: {name: a}, secret: {name: b}}]", "[{downwardAPI: {}}, {podCertificate: ~}]",
		"- configMap: {name: app, optional: yes, items: [{key: a, path: conf.d/a}]}\n- secret: {name: tls, namespace: certs}\n",
		`[{"secret":{"name":"tls","optional":false}}]`, "configMap: {name: app}", "[{configmap: {Name: a}}]",
		"[{secret: {secretName: a, defaultMode: 0400}, name: b}]", "[{secret: &s {name: a}}, {configMap: *s}]", laughs(3), laughs(7),
		"[{configMap: {name: a, as: {path: app.env, format: dotenv}}}, {secret: {name: b, as: {path: ./x//b, format: json, mode: 0400}}}]",
		"- secret:\n    items: [{key: a.b, path: A_B}, {key: C}]\n    as: {format: yaml, path: c}\n    name: d\n",
		"[{secret: {name: a, items: [{key: a, path: b/c, mode: 1}], as: {path: ../x, format: env}}}, {configMap: {name: b, as: ~}}]",
		"[{configMap: {labelSelector: {matchLabels: {a: b}}, namespaces: [shop, billing], path: $(namespace)/$(name)/$(key), folderAnnotation: f}}]",
		"[{secret: {labelSelector: {matchExpressions: [{key: a, operator: In, values: [b, c]}]}, namespaces: ['*'], optional: true, mode: 0400}}]",
		"[{configMap: {name: a, expand: {syntax: '${}', quote: json}, items: [{key: a, path: b, expand: {}}]}}]",
	}
}

func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, present uint16, configMap, secret, namespace, items, sources, rest, key, value string) {
		in := fuzzed{present, configMap, secret, namespace, items, sources, rest, key, value}.attributes()
		var spec api.Spec
		var err error
		checkCheap(t, func() { spec, err = api.Parse(in, "default") })
		if err != nil {
			checkMistakes(t, err)
			checkOneLine(t, in, err)
			return
		}
		checkSpec(t, spec)
		checkCoreReadsTheSame(t, in, spec)
	})
}

// checkCheap fails unless something takes less than a second of this thread and 40 MiB. On a busy machine the clock would count
// the work of others.
func checkCheap(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	start := took()
	used := allocated(do)
	if cpu := took() - start; cpu > time.Second || used > 40<<20 {
		t.Errorf("it took %v and %d bytes", cpu, used)
	}
}

// checkOneLine is for messages of any input: whatever is in it, the message is text that can go into an Event.
func checkOneLine(t *testing.T, in attributes, err error) {
	t.Helper()
	message := err.Error()
	control := strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError })
	if control || !utf8.ValidString(message) {
		t.Errorf("Parse(%q) error is not one line of printable text: %q", in, message)
	}
}

// checkSpec holds for every Spec that Parse returns.
func checkSpec(t *testing.T, spec api.Spec) {
	t.Helper()
	if spec.DefaultMode > 0o777 || spec.UpdatePolicy == "" || spec.OnDelete == "" {
		t.Errorf("Spec has a bad mode or lacks a default: %+v", spec)
	}
	for _, ref := range spec.Refs() {
		if ref.Kind == "" || ref.Namespace == "" || ref.Name == "" {
			t.Errorf("Spec has the incomplete ref %+v", ref)
		}
	}
	files := map[string]bool{} // Those that always exist.
	for _, src := range spec.Sources {
		if src.As != nil {
			checkAs(t, src)
			files[src.As.Path] = !src.Optional
			continue
		}
		for _, it := range src.Items {
			checkItem(t, it)
			files[it.Path] = !src.Optional
		}
	}
	for file := range files {
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			if files[dir] && files[file] {
				t.Errorf("Spec makes %q a file and, for %q, a directory", dir, file)
			}
		}
	}
}

func checkAs(t *testing.T, src api.Source) {
	t.Helper()
	checkItem(t, api.Item{Key: "k", Path: src.As.Path, Mode: src.As.Mode})
	if !slices.Contains(api.Formats(), src.As.Format) {
		t.Errorf("as has the format %q", src.As.Format)
	}
	names := map[string]bool{}
	for _, it := range src.Items {
		if it.Key == "" || it.Mode != nil || names[it.Path] || !src.As.Format.Takes(it.Path) || strings.Contains(it.Path, "/") ||
			strings.ContainsFunc(it.Path, unicode.IsControl) || len(it.Path) > 253 || !utf8.ValidString(it.Path) {
			t.Errorf("item %+v cannot be in the %s file with %v", it, src.As.Format, names)
		}
		names[it.Path] = true
	}
}

func checkItem(t *testing.T, it api.Item) {
	t.Helper()
	switch {
	case it.Key == "":
		t.Errorf("item %+v has no key", it)
	case it.Mode != nil && *it.Mode > 0o777:
		t.Errorf("item %+v has the mode %#o", it, *it.Mode)
	case !fs.ValidPath(it.Path) || it.Path == "." || path.Clean(it.Path) != it.Path:
		t.Errorf("item %+v has a path that is not valid", it)
	case strings.HasPrefix(it.Path, "..") || strings.ContainsRune(it.Path, 0) || len(it.Path) > 4096:
		t.Errorf("item %+v has a reserved or impossible path", it)
	case strings.Count(it.Path, "/") >= 64:
		t.Errorf("item %+v has a path of more than 64 elements", it)
	}
}

// checkCoreReadsTheSame compares with the strict reader of core/v1, to which each accepted text must mean the same. It
// knows neither namespace nor as in a source, and it refuses merge keys that bring nothing and blank texts with tabs, which Parse lets
// pass.
func checkCoreReadsTheSame(t *testing.T, in attributes, spec api.Spec) {
	t.Helper()
	ours := regexp.MustCompile(`\b(as|expand|labelSelector|user)\b`) // Core/v1 has no such fields.
	if text := strings.Trim(in[api.KeyItems], " \t\r\n"); text != "" && !strings.Contains(text, "<<") && !ours.MatchString(text) {
		var items []corev1.KeyToPath
		if err := yaml.UnmarshalStrict([]byte(in[api.KeyItems]), &items); err != nil {
			t.Fatalf("core/v1 does not read the items %q: %v", text, err)
		}
		if diff := cmp.Diff(items, coreItems(t, items, spec.Sources[0].Items)); diff != "" {
			t.Errorf("items %q (-core/v1 +Parse):\n%s", text, diff)
		}
	}
	text := in[api.KeySources]
	if text == "" || ours.MatchString(text) || strings.Contains(text, "<<") || strings.Contains(text, "namespace") {
		return
	}
	var sources []corev1.VolumeProjection
	if err := yaml.UnmarshalStrict([]byte(text), &sources); err != nil {
		t.Fatalf("core/v1 does not read the sources %q: %v", text, err)
	}
	checkSources(t, sources, spec.Sources)
}

func checkSources(t *testing.T, want []corev1.VolumeProjection, got []api.Source) {
	t.Helper()
	for _, projection := range want {
		var ref api.Ref
		var items []corev1.KeyToPath
		var optional *bool
		switch {
		case projection.ConfigMap != nil:
			ref = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: projection.ConfigMap.Name}
			items, optional = projection.ConfigMap.Items, projection.ConfigMap.Optional
		case projection.Secret != nil:
			ref = api.Ref{Kind: api.Secret, Namespace: "default", Name: projection.Secret.Name}
			items, optional = projection.Secret.Items, projection.Secret.Optional
		default:
			continue
		}
		if len(got) == 0 {
			t.Fatalf("Parse has no source for core/v1's %+v", projection)
		}
		src := got[0]
		got = got[1:]
		if src.Ref != ref || src.Optional != (optional != nil && *optional) {
			t.Errorf("Parse has the source %+v for core/v1's %+v", src, projection)
		}
		if diff := cmp.Diff(items, coreItems(t, items, src.Items)); diff != "" {
			t.Errorf("items of %v (-core/v1 +Parse):\n%s", ref, diff)
		}
	}
	if len(got) != 0 {
		t.Errorf("Parse has sources that core/v1 has not: %+v", got)
	}
}

// coreItems turns items into those of core/v1, with a path spelled as in like where both mean the same.
func coreItems(t *testing.T, like []corev1.KeyToPath, items []api.Item) []corev1.KeyToPath {
	t.Helper()
	core := like[:0:0]
	for i, it := range items {
		k := corev1.KeyToPath{Key: it.Key, Path: it.Path}
		if it.Mode != nil {
			bits := int32(*it.Mode)
			k.Mode = &bits
		}
		if i < len(like) && path.Clean(like[i].Path) == it.Path {
			k.Path = like[i].Path
		}
		core = append(core, k)
	}
	return core
}
