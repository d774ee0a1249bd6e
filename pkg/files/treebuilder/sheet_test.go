package treebuilder_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// as is a source that has one file of all its keys.
func as(ref api.Ref, path string, format api.Format, items ...api.Item) api.Source {
	return api.Source{Ref: ref, Items: items, As: &api.As{Path: path, Format: format}}
}

func configMap(name string) api.Ref {
	return api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: name}
}

func optional(src api.Source) api.Source {
	src.Optional = true
	return src
}

func TestBuildOneFile(t *testing.T) {
	t.Parallel()
	all := objects(map[api.Ref][]string{
		web:   {"COLOR", "red", "SHAPE", "it's round"},
		cert:  {"tls.key", "KEY"},
		extra: {},
		other: {"app.env", "plain", "sub", "plain"},
	})
	withMode := as(web, "app.env", api.FormatDotenv)
	withMode.As.Mode = new(fs.FileMode(0o400))
	tests := map[string]struct {
		spec api.Spec
		want tree.Tree
	}{
		"every key": {
			spec(as(web, "app.env", api.FormatDotenv)),
			plain(file("app.env", "COLOR='red'\nSHAPE='it'\\''s round'\n", 0o644)),
		},
		"the keys of items, by their names in the file": {
			spec(as(web, "conf/app.json", api.FormatJSON, api.Item{Key: "SHAPE", Path: "the.shape"})),
			plain(file("conf/app.json", "{\n  \"the.shape\": \"it's round\"\n}\n", 0o644)),
		},
		"one key under two names": {
			spec(as(web, "x", api.FormatYAML, api.Item{Key: "COLOR", Path: "a"}, api.Item{Key: "COLOR", Path: "b"})),
			plain(file("x", "\"a\": \"red\"\n\"b\": \"red\"\n", 0o644)),
		},
		"its own mode": {
			spec(withMode),
			plain(file("app.env", "COLOR='red'\nSHAPE='it'\\''s round'\n", 0o400)),
		},
		"an object without keys is a file without any": {
			spec(as(extra, "a", api.FormatDotenv), as(extra, "b", api.FormatJSON), as(extra, "c", api.FormatYAML),
				as(extra, "d", api.FormatProperties)),
			plain(file("a", "", 0o644), file("b", "{}\n", 0o644), file("c", "{}\n", 0o644), file("d", "", 0o644)),
		},
		"an optional object that does not exist is not a file": {
			spec(optional(as(shared, "a", api.FormatJSON))),
			plain(),
		},
		"optional keys that do not exist are left out": {
			spec(optional(as(web, "a", api.FormatProperties, api.Item{Key: "none", Path: "none"}, api.Item{Key: "COLOR", Path: "c"})),
				optional(as(web, "b", api.FormatJSON, api.Item{Key: "none", Path: "none"}))),
			plain(file("a", "c=red\n", 0o644), file("b", "{}\n", 0o644)),
		},
		"beside files of keys": {
			spec(as(cert, "tls.json", api.FormatJSON), api.Source{Ref: web}),
			plain(file("COLOR", "red", 0o644), file("SHAPE", "it's round", 0o644),
				file("tls.json", "{\n  \"tls.key\": \"KEY\"\n}\n", 0o644)),
		},
		"rule 12: a later key of the same path takes its place": {
			spec(as(web, "app.env", api.FormatDotenv), api.Source{Ref: other}),
			plain(file("app.env", "plain", 0o644), file("sub", "plain", 0o644)),
		},
		"rule 12: it takes the place of an earlier key": {
			spec(api.Source{Ref: other}, as(cert, "app.env", api.FormatProperties)),
			plain(file("app.env", "tls.key=KEY\n", 0o644), file("sub", "plain", 0o644)),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := build(t, tt.spec, nil, all)
			for i := range got.Files { // Empty and nil bytes are the same.
				got.Files[i].Data = append([]byte{}, got.Files[i].Data...)
			}
			wantSame(t, "Build", tt.want, got)
		})
	}
}

func TestBuildOneFileOfAGroup(t *testing.T) {
	t.Parallel()
	src := as(web, "app.env", api.FormatDotenv)
	src.As.Mode = new(fs.FileMode(0o400))
	got, err := treebuilder.Build(spec(src), new(2000), objects(map[api.Ref][]string{web: {"A", "1"}}))
	if err != nil || len(got.Files) != 1 || got.Files[0].Mode != 0o440 || got.GID != 2000 {
		t.Errorf("Build = %v, %v, want one file that the group may read", got, err)
	}
	if *src.As.Mode != 0o400 {
		t.Errorf("the mode of the spec is %04o after Build, want it kept", *src.As.Mode)
	}
}

// TestBuildRefusesWhatIsUnfit: nothing is left out without an error, and no error has a byte of a value.
func TestBuildRefusesWhatIsUnfit(t *testing.T) {
	t.Parallel()
	const advice = "; select the keys with items, where a path gives a key another name"
	const names = `not the name of a variable (letters, digits and "_", no digit first): `
	large := strings.Repeat("x", 1<<20)
	whole, half := configMap("whole"), configMap("half")
	contents := objects(map[api.Ref][]string{
		web:  {"COLOR", "red", "log.level", "hunter2", "app.conf", "hunter2"},
		cert: {"blob", "hunter2\xff", "nul", "hunter2\x00", "a.b", "hunter2"},
		other: {
			"a-1", "", "a-2", "", "a-3", "", "a-4", "", "a-5", "", "a-6", "", "a-7", "", "A", "",
		},
		extra: {"large", large, "quotes", strings.Repeat("'", 1<<19)},
		whole: {"a.b", strings.Repeat("x", treebuilder.MaxRendered)},
		half:  {"blob", strings.Repeat("x", treebuilder.MaxRendered/2) + "\xff"},
	})
	tooMuch := "the files that as makes would have more than 4 MiB together, which is the most for a volume; select fewer keys with items"
	tests := map[string]struct {
		spec api.Spec
		want string
	}{
		"names that variables cannot have": {
			spec(as(web, "conf/app.env", api.FormatDotenv)),
			`configmap "web" does not fit into conf/app.env (dotenv): ` + names + "app.conf, log.level" + advice,
		},
		"every reason, and a problem for each": {
			spec(as(cert, "x y", api.FormatDotenv), as(cert, "b.json", api.FormatJSON)),
			`[secret "cert" does not fit into "x y" (dotenv): ` + names + "a.b" + advice + ", " +
				`secret "cert" does not fit into "x y" (dotenv): a value with a NUL byte: nul` + advice + ", " +
				`secret "cert" does not fit into b.json (json): a value that is not text in UTF-8: blob` + advice + "]",
		},
		"more than anybody wants to read": {
			spec(as(other, "a", api.FormatDotenv)),
			`configmap "other" does not fit into a (dotenv): ` + names + "a-1, a-2, a-3, a-4, a-5 and 2 more" + advice,
		},
		"optional forgives nothing of it": {
			spec(optional(as(web, "a", api.FormatDotenv))),
			`configmap "web" does not fit into a (dotenv): ` + names + "app.conf, log.level" + advice,
		},
		"too much": {
			spec(as(extra, "a", api.FormatJSON), as(extra, "b", api.FormatJSON), as(extra, "c", api.FormatJSON)),
			tooMuch,
		},
		"too much by what is escaped": {
			spec(as(extra, "a", api.FormatDotenv), as(extra, "b", api.FormatDotenv)),
			tooMuch,
		},
		"too much, whatever the names": {
			spec(as(web, "a", api.FormatDotenv), as(whole, "b", api.FormatDotenv), as(web, "c", api.FormatDotenv)),
			"[" + `configmap "web" does not fit into a (dotenv): ` + names + "app.conf, log.level" + advice + ", " + tooMuch + "]",
		},
		"too much together with what is unfit": {
			spec(as(half, "a", api.FormatJSON), as(half, "b", api.FormatYAML)),
			`[configmap "half" does not fit into a (json): a value that is not text in UTF-8: blob` + advice + ", " + tooMuch + "]",
		},
		"after what is missing": {
			spec(as(web, "a", api.FormatDotenv), api.Source{Ref: shared}),
			`configmap "web" not found`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 { // In whatever order Go walks the map.
				_, err := treebuilder.Build(tt.spec, nil, contents)
				if err == nil || err.Error() != tt.want {
					t.Fatalf("Build = %v, want %s", err, tt.want)
				}
				_, isMissing := errors.AsType[*treebuilder.MissingError](err)
				if _, isUnfit := errors.AsType[*treebuilder.UnsupportedError](err); isUnfit == isMissing {
					t.Fatalf("Build = %T, want an *UnfitError or a *MissingError", err)
				}
			}
		})
	}
}

// TestTheLargestCombinedFile has the last byte that fits, and the first that does not.
func TestTheLargestCombinedFile(t *testing.T) {
	t.Parallel()
	name, err := rendering.Size(api.FormatJSON, "A", nil)
	expect.NoError(t, err)
	for more, fits := range map[int]bool{0: true, 1: false} {
		value := strings.Repeat("x", treebuilder.MaxRendered-rendering.FrameSize-name+more)
		plan, err := treebuilder.Prepare(spec(as(web, "a", api.FormatJSON)), nil, objects(map[api.Ref][]string{web: {"A", value}}))
		if (err == nil) != fits {
			t.Errorf("Prepare with %d bytes more than the largest file = %v", more, err)
		}
		if fits && plan.Tree().Size() < len(value) {
			t.Errorf("the file has %d bytes, want all %d of the value", plan.Tree().Size(), len(value))
		}
	}
}

// TestNoValueOfALargeFileIsRead: what its names and values have at least is enough to refuse it.
func TestNoValueOfALargeFileIsRead(t *testing.T) {
	t.Parallel()
	least := rendering.FrameSize + len("A") + rendering.LeastBetween
	for more, want := range map[int]string{
		0: `configmap "web" does not fit into a (json): a value that is not text in UTF-8: A; select the keys with items, where a path gives a ` +
			"key another name",
		1: "the files that as makes would have more than 4 MiB together, which is the most for a volume; select fewer keys with items",
	} {
		value := strings.Repeat("\xff", treebuilder.MaxRendered-least+more)
		_, err := treebuilder.Prepare(spec(as(web, "a", api.FormatJSON)), nil, objects(map[api.Ref][]string{web: {"A", value}}))
		if err == nil || err.Error() != want {
			t.Errorf("Prepare with %d bytes more than fit = %v, want %s", more, err, want)
		}
	}
}

// TestMemoryOfCombinedFiles is their bytes, at most, and 32 for each name. Files of keys take none.
func TestMemoryOfCombinedFiles(t *testing.T) {
	t.Parallel()
	contents := objects(map[api.Ref][]string{web: {"A", "1", "B", "it's"}, other: {"k", "value"}, extra: {}})
	dotenv := as(web, "a", api.FormatDotenv) // Six bytes and twelve, and four of the frame.
	for name, tt := range map[string]struct {
		spec     api.Spec
		sizes    []int
		rendered int64
	}{
		"no key":          {spec(as(extra, "a", api.FormatDotenv)), []int{4}, 4},
		"two keys":        {spec(dotenv), []int{22}, 22 + 2*32},
		"one item":        {spec(as(web, "a", api.FormatDotenv, api.Item{Key: "A", Path: "N"})), []int{10}, 10 + 32},
		"files beside":    {spec(dotenv, as(extra, "b", api.FormatJSON), api.Source{Ref: other}), []int{22, 4, 5}, 26 + 2*32},
		"a file in place": {spec(as(other, "k", api.FormatJSON), api.Source{Ref: other}), []int{5}, 0},
	} {
		plan, err := treebuilder.Prepare(tt.spec, nil, contents)
		expect.NoError(t, err)
		wantSame(t, name+": Sizes", tt.sizes, slices.Collect(plan.Sizes()))
		wantSame(t, name+": Rendered", tt.rendered, plan.Rendered())
	}
}

// TestPlanListsWhatItRenders, no less, and hardly more: it is what the memory for it is taken by.
func TestPlanListsWhatItRenders(t *testing.T) {
	t.Parallel()
	contents := objects(map[api.Ref][]string{web: {"A", strings.Repeat("'", 100_000), "B", "2"}})
	for name, s := range map[string]api.Spec{
		"one": spec(as(web, "a", api.FormatDotenv)), "two": spec(as(web, "a", api.FormatDotenv), as(web, "b", api.FormatJSON)),
	} {
		plan, err := treebuilder.Prepare(s, nil, contents)
		expect.NoError(t, err)
		said, made := plan.Rendered(), int64(plan.Tree().Size())
		if said < made || said > made+1000 {
			t.Errorf("%s: Rendered = %d, and the files have %d bytes", name, said, made)
		}
	}
	plan, err := treebuilder.Prepare(spec(api.Source{Ref: web}), nil, contents)
	if err != nil || plan.Rendered() != 0 {
		t.Errorf("Rendered = %d of files of keys, want 0 (%v)", plan.Rendered(), err)
	}
}

// TestGuardPreparingTakesNoMemory: a short text may ask for a large object a thousand times over, in the format that makes
// the most of it. To find out that this is too much must cost no memory to speak of.
func TestGuardPreparingTakesNoMemory(t *testing.T) { // Not parallel: whatever else is made would be counted.
	const most = 1 << 20
	data := []string{"large", strings.Repeat("\x01", 1<<19)}
	for i := range 20_000 {
		data = append(data, fmt.Sprint("k", i), "")
	}
	contents := objects(map[api.Ref][]string{web: data})
	for name, format := range map[string]api.Format{"values that grow": api.FormatJSON, "names that do not fit": api.FormatDotenv} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			for i := range 1000 {
				s.Sources = append(s.Sources, as(web, fmt.Sprint("f", i), format))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := treebuilder.Prepare(s, nil, contents)
			runtime.ReadMemStats(&after)
			if _, isUnfit := errors.AsType[*treebuilder.UnsupportedError](err); !isUnfit {
				t.Fatalf("Prepare = %v, want an *UnfitError", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("Prepare made %d bytes, want at most %d", got, most)
			}
		})
	}
}
