package treebuilder_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// crowded returns an object with a number of keys. It can have about a hundred thousand.
func crowded(name string, keys int) api.Content {
	c := api.Content{Ref: api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: name}, Data: make(map[string][]byte, keys)}
	for i := range keys {
		c.Data[fmt.Sprintf("%05x", i)] = nil
	}
	return c
}

// TestPrepareBoundsItsKeys: a few bytes of text can name an object with a hundred thousand keys thousands of times. A volume that
// asks for too many keys is refused before the first of them is looked at.
func TestPrepareBoundsItsKeys(t *testing.T) { // Not parallel: whatever else is allocated would be counted.
	object, small, one := crowded("a", 100_000), crowded("small", treebuilder.MostKeys>>8), crowded("one", 1)
	contents := map[api.Ref]api.Content{object.Ref: object, small.Ref: small, one.Ref: one}
	selected := func(sources int) treebuilder.Selected {
		all := treebuilder.Selected{}
		for i := range sources {
			all[i] = [][]treebuilder.Object{{{Content: object}}}
		}
		return all
	}
	const (
		named    = "- configMap: {name: a}\n"
		most     = 256 // So many times the keys of small are as many as there may be.
		few      = "- configMap: {name: small}\n"
		single   = "- configMap: {name: one}\n"
		selector = "- configMap: {labelSelector: {}}\n"
		tooMany  = "the sources and values of the volume have %d keys together, the most is 262144: list the keys that it needs in items, " +
			"or use more volumes"
	)
	tests := map[string]struct {
		attributes map[string]string
		selected   treebuilder.Selected
		keys       int // Zero if there are not too many.
	}{
		"an object twice":                    {attributes: map[string]string{"sources": strings.Repeat(named, 2)}},
		"an object very often":               {attributes: map[string]string{"sources": strings.Repeat(named, 2048)}, keys: 204_800_000},
		"as many as there may be":            {attributes: map[string]string{"sources": strings.Repeat(few, most)}},
		"one more":                           {attributes: map[string]string{"sources": strings.Repeat(few, most) + single}, keys: treebuilder.MostKeys + 1},
		"an object twice, and an item of it": {attributes: map[string]string{"sources": strings.Repeat(named, 2) + "- configMap: {name: a, items: [{key: '00000', path: x}]}"}},
		"items of it very often":             {attributes: map[string]string{"sources": strings.Repeat("- configMap: {name: a, items: []}\n", 1000)}, keys: 100_000_000},
		"values of it":                       {attributes: map[string]string{"sources": "- configMap: {name: a, expand: {}}", "values": named}},
		"values of it very often":            {attributes: map[string]string{"sources": "- configMap: {name: a, expand: {}}", "values": strings.Repeat(named, 2048)}, keys: 204_900_000},
		"values that no file names":          {attributes: map[string]string{"sources": named, "values": strings.Repeat(named, 2048)}},
		"a selection":                        {attributes: map[string]string{"sources": selector}, selected: selected(1)},
		"many equal selections":              {attributes: map[string]string{"sources": strings.Repeat(selector, 256)}, selected: selected(256), keys: 25_600_000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec, err := api.Parse(test.attributes, "default")
			expect.NoError(t, err)
			took := allocated(func() { _, err = treebuilder.PrepareSelected(spec, nil, contents, test.selected) })
			if test.keys == 0 {
				expect.NoError(t, err)
				return
			}
			if _, ok := errors.AsType[*treebuilder.UnsupportedError](err); !ok || err.Error() != fmt.Sprintf(tooMany, test.keys) {
				t.Errorf("PrepareSelected = %v, want that %d keys are too many", err, test.keys)
			}
			if took > 1<<20 {
				t.Errorf("the refusal allocates %d bytes, want little", took)
			}
		})
	}
}

// TestPrepareBoundsTheTextsWithValues: a text of places whose value is empty makes an empty file, so the size of the files alone
// bounds no work.
func TestPrepareBoundsTheTextsWithValues(t *testing.T) {
	t.Parallel()
	ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "a"}
	contents := map[api.Ref]api.Content{ref: {Ref: ref, Data: map[string][]byte{
		"text": []byte(strings.Repeat("$(EMPTY:-"+strings.Repeat("x", 1014)+")", 1<<10)), "EMPTY": nil, // The text has 1 MiB.
	}}}
	for count, want := range map[int]string{
		16: "",
		17: "the texts of the files with values have more than 16 MiB together, which is the most for a volume: expand fewer of them",
	} {
		var items strings.Builder
		for i := range count {
			fmt.Fprintf(&items, "{key: text, path: p%d, expand: {}},", i)
		}
		spec, err := api.Parse(map[string]string{
			"sources": "[{configMap: {name: a, items: [" + items.String() + "]}}]", "values": "[{configMap: {name: a, items: [{key: EMPTY, path: EMPTY}]}}]",
		}, "default")
		expect.NoError(t, err)
		_, err = treebuilder.Prepare(spec, nil, contents)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("with %d files Prepare = %v, want %q", count, err, want)
		}
	}
}

// TestPrepareBoundsThePathsOfSelectedFiles: a few bytes of text can make thousands of bytes of paths, directories or messages for
// each key of many objects.
func TestPrepareBoundsThePathsOfSelectedFiles(t *testing.T) { // Not parallel: whatever else is in memory would be counted.
	const objects, keys = 520, 260
	all := make([]treebuilder.Object, objects)
	for i := range all {
		all[i].Content = api.Content{Ref: api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("object-", i)}, Data: map[string][]byte{}}
		for j := range keys {
			all[i].Content.Data[fmt.Sprint("key-", j)] = nil
		}
	}
	const (
		unsaid  = "and more than 980 more"
		tooLong = "the paths of the files of selected objects have more than 16 MiB together: use shorter paths, or more volumes"
		tooMany = "the files of selected objects need more than 131072 directories: use shorter paths, or more volumes"
	)
	for name, test := range map[string]struct {
		path       string
		collisions string // The last of them.
		want       string // The error; empty for success.
	}{
		"long paths":  {strings.Repeat(strings.Repeat("x", 200)+"/", 15) + "$(name)/$(key)", "", tooLong},
		"deep paths":  {strings.Repeat("x/$(name)$(key)/", 12) + "y", "", tooLong},
		"directories": {"$(name)/$(key)/x/y", "", tooMany},
		"one path":    {strings.Repeat("x", 40), unsaid, ""},
		"no path":     {strings.Repeat("$(key)", 50), unsaid, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec, err := api.Parse(map[string]string{"sources": "- configMap: {labelSelector: {}, path: " + test.path + "}"}, "default")
			expect.NoError(t, err)
			var plan treebuilder.Plan
			grown := heap(func() { plan, err = treebuilder.PrepareSelected(spec, nil, nil, treebuilder.Selected{0: {all}}) })
			if got := fmt.Sprint(err); (err != nil) != (test.want != "") || got != test.want && err != nil {
				t.Errorf("PrepareSelected = %.300v, want %q", err, test.want)
			}
			if got := plan.Collisions(); err == nil && got[len(got)-1] != test.collisions {
				t.Errorf("the last of the collisions is %q, want %q", got[len(got)-1], test.collisions)
			}
			if grown > 4<<20 {
				t.Errorf("what is left of it has %d KiB, want little", grown>>10)
			}
			runtime.KeepAlive(plan)
		})
	}
}

// TestThePathsThatSelectedFilesMayHave has the last directory and the last byte that may be, and one more.
func TestThePathsThatSelectedFilesMayHave(t *testing.T) {
	t.Parallel()
	all := []treebuilder.Object{{Content: crowded("a", 4096)}}
	more := []treebuilder.Object{{Content: crowded("one", 1)}}
	for name, tt := range map[string]struct{ path, one, want string }{
		"directories": {
			"$(key)" + strings.Repeat("/x", 31) + "/f", "more/f", // 32 directories for each key.
			"the files of selected objects need more than 131072 directories: use shorter paths, or more volumes",
		},
		"bytes": {
			"x/" + strings.Repeat(strings.Repeat("x", 255)+"/", 15) + strings.Repeat("x", 254), "f", // 4096 bytes for each key.
			"the paths of the files of selected objects have more than 16 MiB together: use shorter paths, or more volumes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(selecting(tt.path), selecting(tt.one))
			s.Sources[1].Optional = true
			_, err := treebuilder.PrepareSelected(s, nil, nil, treebuilder.Selected{0: {all}})
			expect.NoError(t, err)
			_, err = treebuilder.PrepareSelected(s, nil, nil, treebuilder.Selected{0: {all}, 1: {more}})
			if err == nil || err.Error() != tt.want {
				t.Errorf("PrepareSelected with one more = %v, want %s", err, tt.want)
			}
		})
	}
}

// heap returns how many bytes are on the heap afterwards that were not before.
func heap(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
