package volume

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestSelectedObjectsTakeLittleMemory: a few bytes of text can select a thousand objects hundreds of times, and no account is
// charged with the lists of them.
func TestSelectedObjectsTakeLittleMemory(t *testing.T) { // Not parallel: whatever else is allocated would be counted.
	const most = 256 // Ranges of a volume.
	members := make([]source.Member, source.MaxSelected)
	for i := range members {
		members[i].Content = api.Content{Ref: api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("object-", i)}}
	}
	entries := func(format string) string {
		var text strings.Builder
		for i := range most {
			fmt.Fprintf(&text, format+"\n", i)
		}
		return text.String()
	}
	for name, test := range map[string]struct {
		sources   string
		selectors int
		isTooMuch bool
	}{
		"one selector":       {entries("- configMap: {labelSelector: {}, mode: 0400} # %d"), 1, false},
		"many folders":       {entries("- configMap: {labelSelector: {}, folderAnnotation: a%d}"), 1, false},
		"one with too many":  {"- configMap: {labelSelector: {matchLabels: {a: b}}}\n- configMap: {labelSelector: {}}", 2, true},
		"many with too many": {entries("- configMap: {labelSelector: {matchLabels: {a: b%d}}}"), most, true},
	} {
		t.Run(name, func(t *testing.T) {
			spec, err := api.Parse(map[string]string{api.KeySources: test.sources}, "default")
			if err != nil {
				t.Fatal(err)
			}
			keys := selectionKeys(api.Pod{}, spec, func(api.Pod, api.Ref) identity.Identity { return identity.Identity{} })
			if len(keys) != test.selectors {
				t.Fatalf("%d keys, want %d", len(keys), test.selectors)
			}
			var c selected
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, key := range keys {
				if err = c.add(look{spec: spec}, releases{}, seen{key: key, now: source.Snapshot{Members: members}}); err != nil {
					t.Fatal(err)
				}
			}
			_, err = c.prepare(spec, nil, map[api.Ref]api.Content{})
			runtime.ReadMemStats(&after)
			if isTooMuch(err) != test.isTooMuch || err != nil && !test.isTooMuch {
				t.Errorf("prepare = %v, want that it is too much: %t", err, test.isTooMuch)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
				t.Errorf("%d objects allocate %d KiB, want little", len(members), took>>10)
			}
		})
	}
}

// TestReleasedObjectsAreSeenOnce however many selections have them, and their copies count for each of these.
func TestReleasedObjectsAreSeenOnce(t *testing.T) { // Not parallel: whatever else is allocated would be counted.
	const most = 256 // Ranges of a volume.
	var sources strings.Builder
	for i := range most {
		fmt.Fprintf(&sources, "- configMap: {labelSelector: {matchExpressions: [{key: a%d, operator: DoesNotExist}]}}\n", i)
	}
	spec, err := api.Parse(map[string]string{api.KeySources: sources.String()}, "default")
	if err != nil {
		t.Fatal(err)
	}
	keys := selectionKeys(api.Pod{}, spec, func(api.Pod, api.Ref) identity.Identity { return identity.Identity{} })
	members := make([]source.Member, source.MaxSelected)
	copies, then := map[source.Key]*stableCopy{}, map[source.Key]source.Snapshot{}
	for i := range members {
		members[i].Content = api.Content{
			Ref:  api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("object-", i)},
			Data: map[string][]byte{"k": nil},
		}
		members[i].Release = &release.Marks{IsReleased: true}
		of := memberKey(keys[0], members[i])
		copies[of] = &stableCopy{}
		then[of] = source.Snapshot{Content: api.Content{Data: map[string][]byte{"k": nil, "old": nil}}}
	}
	late := slices.Clone(members) // Of a watch that is behind.
	late[0].Release = &release.Marks{}
	l := look{spec: spec, keys: keys, now: make([]source.Snapshot, len(keys))}
	for i := range l.now {
		l.now[i] = source.Snapshot{Found: true, Members: members}
	}
	l.now[0].Members = late
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.setMembers(copies, then)
	runtime.ReadMemStats(&after)
	if len(l.members) != len(members)+1 || len(l.memberAt) != len(members) {
		t.Errorf("%d members are seen, of %d objects, want %d, one of them with both of its marks", len(l.members), len(l.memberAt), len(members))
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("%d objects allocate %d KiB, want little", len(members), took>>10)
	}
	if got, want := l.keyCount(), min(3*most*len(members), treebuilder.MostKeys); got != want {
		t.Errorf("%d keys, want %d", got, want)
	}
	l.spec.Sources = l.spec.Sources[:1]
	if got, want := l.keyCount(), 3*len(members); got != want {
		t.Errorf("the first selection has %d keys, want %d", got, want)
	}
}

// TestSourcesOfFilesTakeRoom before they are written.
func TestSourcesOfFilesTakeRoom(t *testing.T) {
	t.Parallel()
	needed := func(namespaces string) int64 {
		spec, err := api.Parse(map[string]string{
			api.KeySources: "[{configMap: {labelSelector: {}, namespaces: " + namespaces + "}}]",
		}, "shop")
		if err != nil {
			t.Fatal(err)
		}
		object := treebuilder.Object{Content: api.Content{
			Ref: api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "a"}, Data: map[string][]byte{"k": []byte("1")},
		}}
		plan, err := treebuilder.PrepareSelected(spec, nil, map[api.Ref]api.Content{}, treebuilder.Selected{0: {{object}}})
		if err != nil {
			t.Fatal(err)
		}
		return neededBy(plan)
	}
	const source = "0/-62135596800/shop/a/k/" // Of an object without a time.
	if got, want := needed("[shop, billing]")-needed("[shop]"), int64(bytesPerSource+len(source)); got != want {
		t.Errorf("the source of a file takes %d bytes, want %d", got, want)
	}
}

func TestSizeOfSelection(t *testing.T) {
	t.Parallel()
	s := api.Selection{
		Selector: strings.Repeat("s", 100), Path: strings.Repeat("p", 20), FolderAnnotation: "f", Namespaces: []string{"shop", "billing"},
	}
	if got, want := sizeOfSelection(&s), int64(100+20+1+2*bytesPerUse+len("shop")+len("billing")); got != want {
		t.Errorf("a selection takes %d bytes, want %d", got, want)
	}
	if got := sizeOfSelection(nil); got != 0 {
		t.Errorf("a source that names its object takes %d bytes for a selection, want none", got)
	}
}
