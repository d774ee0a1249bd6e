package status

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// sourceOf is a source in the volume config of pods.
func sourceOf(name string, pods ...podStatus) sourceStatus {
	s := sourceStatus{Volume: "config", Kind: api.ConfigMap, Namespace: "shop", Name: name}
	for _, p := range pods {
		s.add(p)
	}
	return s
}

// someFleet has pods of two namespaces on three nodes, of which one was not asked.
func someFleet() []workloadStatus {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	fine := func(name, node, driver string) podStatus {
		return podStatus{Pod: name, Node: node, Driver: driver, State: versions.Current, Has: "12"}
	}
	lags := func(name, node, driver, why string) podStatus {
		return podStatus{Pod: name, Node: node, Driver: driver, State: versions.Lagging, Has: "11", Since: at, Why: why}
	}
	unknown := podStatus{Pod: "web-4", Node: "node-3", State: versions.Unknown, Why: "the driver of its node cannot be asked"}
	waits := func(name string) podStatus {
		return lags(name, "node-2", "v2", "it waits for its volume; see kubectl describe pod/"+name)
	}
	return []workloadStatus{
		{Workload: "pods", Namespace: "cart", Sources: []sourceStatus{sourceOf("app", fine("web-1", "node-1", "v1"), waits("web-5"))}},
		{Workload: "pods", Namespace: "idle", Sources: []sourceStatus{sourceOf("app", fine("web-1", "node-1", "v1"))}},
		{Workload: "pods", Namespace: "shop", Pending: 3, Sources: []sourceStatus{
			sourceOf("app", fine("web-1", "node-1", "v1"), fine("web-2", "node-2", "v2"), unknown, waits("web-6")),
			sourceOf("gone", lags("web-1", "node-1", "v1", "not found"), lags("web-2", "node-2", "v2", "not found"), unknown),
			sourceOf("other", lags("web-1", "node-1", "v1", "not found"), lags("web-2", "node-2", "v2", "its node has not heard of it yet")),
		}},
	}
}

// TestFleet: each pod counts once, by the worst of its sources, and pods of one name in two namespaces are two.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := fleetOf(someFleet())
	if want := (counts{Pods: 7, states: states{Current: 2, Lagging: 4, Unknown: 1}}); f.counts != want || f.Pending != 3 {
		t.Errorf("fleetOf = %+v and %d pending, want %+v and 3", f.counts, f.Pending, want)
	}
	waiting := group{
		Name: "it waits for its volume; see kubectl describe pod/NAME", counts: counts{Pods: 2, states: states{Lagging: 2}},
		Nodes: []string{"node-2"}, Drivers: []string{"v2"}, Example: "cart/web-5",
	}
	if diff := cmp.Diff([]group{
		waiting,
		{Name: "not found", counts: counts{Pods: 2, states: states{Lagging: 2}}, Nodes: []string{"node-1", "node-2"}, Drivers: []string{"v1", "v2"}, Example: "shop/web-1"},
		{Name: "its node has not heard of it yet", counts: counts{Pods: 1, states: states{Lagging: 1}}, Nodes: []string{"node-2"}, Drivers: []string{"v2"}, Example: "shop/web-2"},
		{Name: "the driver of its node cannot be asked", counts: counts{Pods: 1, states: states{Unknown: 1}}, Nodes: []string{"node-3"}, Drivers: []string{}, Example: "shop/web-4"},
	}, f.Reasons, cmp.AllowUnexported(group{}, counts{})); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]group{
		{Name: "v2", counts: counts{Pods: 3, states: states{Lagging: 3}}, Nodes: []string{"node-2"}, Drivers: []string{"v2"}, Example: "cart/web-5"},
		{Name: "", counts: counts{Pods: 1, states: states{Unknown: 1}}, Nodes: []string{"node-3"}, Drivers: []string{}, Example: "shop/web-4"},
		{Name: "v1", counts: counts{Pods: 3, states: states{Current: 2, Lagging: 1}}, Nodes: []string{"node-1"}, Drivers: []string{"v1"}, Example: "shop/web-1"},
	}, f.Drivers, cmp.AllowUnexported(group{}, counts{})); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
	var left []string
	for _, w := range f.NotCurrent {
		for _, s := range w.Sources {
			for _, p := range s.Pods {
				left = append(left, fmt.Sprintf("%s/%s %s %d", w.Namespace, p.Pod, s.Name, s.Current))
			}
		}
	}
	want := []string{
		"cart/web-5 app 1", "shop/web-4 app 2", "shop/web-6 app 2",
		"shop/web-1 gone 0", "shop/web-2 gone 0", "shop/web-4 gone 0", "shop/web-1 other 0", "shop/web-2 other 0",
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("pods that are not current, with the number of those that are (-want +got):\n%s", diff)
	}
}

// TestWriteFleet compares what is printed with testdata. UPDATE=1 writes it again.
func TestWriteFleet(t *testing.T) {
	t.Parallel()
	current := someFleet()[1:2]
	tests := map[string]struct {
		all  []workloadStatus
		wide bool
	}{
		"fleet":              {all: someFleet()},
		"fleet-wide":         {all: someFleet(), wide: true},
		"fleet-current":      {all: current},
		"fleet-current-wide": {all: current, wide: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			text := table{wide: test.wide, now: time.Date(2026, 11, 21, 9, 5, 0, 0, time.UTC)}
			if err := text.writeFleet(&b, fleetOf(test.all)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".txt")
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("writeFleet (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFleetLimit: many groups are few lines, unless all are wanted.
func TestFleetLimit(t *testing.T) {
	t.Parallel()
	var s sourceStatus
	for i := range 5000 {
		s.add(podStatus{
			Pod: fmt.Sprint("web-", i), Node: fmt.Sprint("node-", i%100), Driver: fmt.Sprint("v", i%30),
			State: versions.Lagging, Why: fmt.Sprint("reason ", i%50),
		})
	}
	all := []workloadStatus{{Namespace: "shop", Sources: []sourceStatus{s}}}
	for wide, most := range map[bool]int{false: 2 + 3*(2+mostRows+1), true: 2 + 2 + 50 + 2 + 100 + 2 + 30 + 2 + 5000} {
		var b strings.Builder
		if err := (table{wide: wide}).writeFleet(&b, fleetOf(all)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "\n"); got != most {
			t.Errorf("with wide %t it prints %d lines, want %d:\n%s", wide, got, most, b.String()[:2000])
		}
	}
}

// TestTableCells: no text of a node's report moves the cursor, or looks like another row.
func TestTableCells(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	lagging := podStatus{Pod: "web-1", State: versions.Lagging, Why: "no\x1b[2J\nweb-2\tcurrent"}
	if err := (table{now: time.Now()}).write(&b, []workloadStatus{{Workload: "pods/web-1", Sources: []sourceStatus{{Pods: []podStatus{lagging}}}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `no\x1b[2J web-2 current`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("print = %q, want it to end with %q", got, want)
	}
}

// TestTableLimit: only the short table leaves pods out, and only then it counts them.
func TestTableLimit(t *testing.T) {
	t.Parallel()
	pods := slices.Repeat([]podStatus{{Pod: "web", State: versions.Lagging}}, mostRows+2)
	all := []workloadStatus{{Workload: "pods/web", Sources: []sourceStatus{{Pods: pods}}}}
	for wide, want := range map[bool]string{false: "and 2 more: -o wide shows all\n", true: "-\n"} {
		var b strings.Builder
		if err := (table{wide: wide, now: time.Now()}).write(&b, all); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.HasSuffix(got, want) || strings.Contains(got, "more") == wide {
			t.Errorf("with wide %v it prints %q, want it to end with %q", wide, got, want)
		}
	}
}
