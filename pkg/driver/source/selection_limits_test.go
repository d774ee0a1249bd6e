package source_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestWhatASelectionTakes: room for its members while there are some.
func TestWhatASelectionTakes(t *testing.T) {
	bubble(t, func(b *bench) {
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1)
		nothing := b.room.Used()
		b.Put(labelled("shop", "a", "web", "1"))
		b.wantMembers(ofShop, 1, "shop/a=1")
		one := b.room.Used()
		b.Put(labelled("shop", "b", "web", "1"))
		b.wantMembers(ofShop, 1, "shop/a=1", "shop/b=1")
		if two := b.room.Used(); one <= nothing || two-one != one-nothing {
			t.Errorf("room for none, one and two members: %d, %d and %d bytes, want as much more for each", nothing, one, two)
		}
		for _, name := range []string{"a", "b"} {
			b.Put(labelled("shop", name, "db", "1"))
		}
		b.wantMembers(ofShop, 2)
		b.wantUsed(nothing)
	})
}

// TestASelectionHasTooMuch: it keeps its last members, and heals.
func TestASelectionHasTooMuch(t *testing.T) {
	large := strings.Repeat("x", 1_000_000)
	each(t, identity.Driver(), map[string]struct {
		count         int
		value         string
		comesAtOnce   bool
		objects, most int
	}{
		"objects, one by one": {count: 1000, value: "1", objects: 1001, most: 1000},
		"objects, in a list":  {count: 1500, value: "1", comesAtOnce: true, objects: 1001, most: 1},
		"bytes, one by one":   {count: 20, value: large, objects: 18, most: 17},
		"bytes, in a list":    {count: 20, value: large, comesAtOnce: true, objects: 17, most: 1},
	}, func(b *bench, tt struct {
		count         int
		value         string
		comesAtOnce   bool
		objects, most int
	},
	) {
		b.Put(labelled("shop", "z", "web", "1"))
		b.selectAll(ofShop)
		name := func(i int) string { return fmt.Sprintf("o-%04d", i) }
		if tt.comesAtOnce {
			b.Answer(errors.New("away"), errors.New("away"))
			b.Cut()
			pass(10 * time.Second)
		}
		for i := range tt.count {
			b.Put(labelled("shop", name(i), "web", tt.value))
			if !tt.comesAtOnce {
				b.settle()
			}
		}
		if tt.comesAtOnce {
			b.Compact()
			b.Answer(nil, nil)
		}
		pass(10 * time.Second)
		b.wantCount(ofShop, tt.most)
		tooMuch, ok := errors.AsType[*source.TooMuchError](b.problem(ofShop))
		if !ok || tooMuch.Objects != tt.objects {
			b.t.Fatalf("problem = %v, want too much, with %d objects", b.problem(ofShop), tt.objects)
		}
		used := b.room.Used()
		pass(5 * time.Minute)
		b.wantCount(ofShop, tt.most)
		if after := b.room.Used(); after != used {
			b.t.Errorf("%d bytes of room are used, and %d a while later", used, after)
		}
		for i := range tt.count {
			b.Put(labelled("shop", name(i), "db", "1"))
		}
		pass(time.Minute)
		b.wantCount(ofShop, 1)
		if err := b.problem(ofShop); err != nil {
			b.t.Errorf("problem = %v, want none", err)
		}
	})
}

// TestPagesAreBounded: a page with too many bytes is read again with fewer objects.
func TestPagesAreBounded(t *testing.T) {
	bubble(t, func(b *bench) {
		for i := range 12 {
			b.Put(labelled("shop", fmt.Sprintf("o-%02d", i), "web", strings.Repeat("x", 1_000_000)))
		}
		b.selectAll(ofShop)
		b.wantCount(ofShop, 12)
		var limits []int64
		for _, r := range b.All() {
			if r.Verb == "list" {
				limits = append(limits, r.Opts.Limit)
			}
		}
		if want := []int64{100, 25, 6, 1}; !slices.Equal(limits[:4], want) || len(limits) != 3+12 {
			t.Errorf("limits of the pages: %v, want them to begin with %v", limits, want)
		}
	})
}

// TestASelectionWaitsForRoom: nothing is stored that has no room.
func TestASelectionWaitsForRoom(t *testing.T) {
	bubble(t, func(b *bench) {
		b.Put(labelled("shop", "a", "web", "1"))
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1, "shop/a=1")
		taken := b.room.Part(func(int64) {}).Account()
		taken.Force(b.room.Limit() - b.room.Used() - 100)
		b.Put(labelled("shop", "b", "web", strings.Repeat("x", 1000)))
		b.settle()
		if _, ok := errors.AsType[*budget.ExhaustedError](b.problem(ofShop)); !ok {
			t.Errorf("problem = %v, want no room", b.problem(ofShop))
		}
		b.wantCount(ofShop, 1)
		taken.Close()
		pass(10 * time.Second)
		b.wantCount(ofShop, 2)
		if err := b.problem(ofShop); err != nil {
			t.Errorf("problem = %v, want none", err)
		}
	})
}
