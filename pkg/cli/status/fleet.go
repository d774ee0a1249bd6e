package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// counts are how many pods there are. A pod counts once, by the worst of its sources.
type counts struct {
	Pods int `json:"pods"`
	states
}

func (c *counts) add(state versions.State) {
	c.Pods++
	c.count(state)
}

// group are pods with something in common: the node, the version of its driver, or the reason why
// they are not current.
type group struct {
	// Name is the node, the version or the reason; empty if that is not known.
	Name string `json:"name"`
	counts

	Nodes   []string `json:"nodes"`
	Drivers []string `json:"drivers"`
	// Example is one of the pods, with its namespace: one that is not current, if any is.
	Example string `json:"example"`
}

type fleet struct {
	counts

	Pending int     `json:"pending"`
	Reasons []group `json:"reasons"`
	Nodes   []group `json:"nodes"`
	Drivers []group `json:"drivers"`
	// NotCurrent has those pods, by namespace, and the sources that they lack.
	NotCurrent []workloadStatus `json:"notCurrent"`
}

type fleetPod struct {
	name, node, driver string
	state              versions.State
	reasons            []string
}

func fleetOf(all []workloadStatus) fleet {
	pods := podsOf(all)
	f := fleet{
		Reasons:    groupsOf(pods, func(p *fleetPod) []string { return p.reasons }),
		Nodes:      groupsOf(pods, func(p *fleetPod) []string { return []string{p.node} }),
		Drivers:    groupsOf(pods, func(p *fleetPod) []string { return []string{p.driver} }),
		NotCurrent: notCurrent(all),
	}
	for _, p := range pods {
		f.add(p.state)
	}
	for _, w := range all {
		f.Pending += w.Pending
	}
	return f
}

func podsOf(all []workloadStatus) []*fleetPod {
	var pods []*fleetPod
	known, general := map[string]*fleetPod{}, newGeneralizer()
	for _, w := range all {
		for _, s := range w.Sources {
			for _, p := range s.Pods {
				name := w.Namespace + "/" + p.Pod
				if known[name] == nil {
					known[name] = &fleetPod{name: name, node: p.Node, driver: p.Driver, state: versions.Current}
					pods = append(pods, known[name])
				}
				known[name].add(general, &s, p)
			}
		}
	}
	return pods
}

// add adds a source of a pod.
func (f *fleetPod) add(general generalizer, s *sourceStatus, p podStatus) {
	f.state = versions.Worst(f.state, p.State)
	if p.State == versions.Current {
		return
	}
	if why := general.reason(s, p); !slices.Contains(f.reasons, why) {
		f.reasons = append(f.reasons, why)
	}
}

// groupsOf puts pods into groups by names, and sorts the groups: the one with the most pods that
// are not current is first.
func groupsOf(pods []*fleetPod, names func(*fleetPod) []string) []group {
	groups := map[string]*group{}
	for _, p := range pods {
		for _, name := range names(p) {
			if groups[name] == nil {
				groups[name] = &group{Name: name, Nodes: []string{}, Drivers: []string{}}
			}
			groups[name].addPod(p)
		}
	}
	all := []group{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[name])
	}
	slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(b.Pods-b.Current, a.Pods-a.Current) })
	return all
}

func (g *group) addPod(p *fleetPod) {
	if isFirstOfThese := g.Pods == g.Current && p.state != versions.Current; g.Example == "" || isFirstOfThese {
		g.Example = p.name
	}
	g.add(p.state)
	g.Nodes = insert(g.Nodes, p.node)
	g.Drivers = insert(g.Drivers, p.driver)
}

func insert(list []string, text string) []string {
	at, found := slices.BinarySearch(list, text)
	if found || text == "" {
		return list
	}
	return slices.Insert(list, at, text)
}

// notCurrent returns the statuses without the pods that are current.
func notCurrent(all []workloadStatus) []workloadStatus {
	some := []workloadStatus{}
	for _, w := range all {
		var sources []sourceStatus
		for _, s := range w.Sources {
			s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p podStatus) bool { return p.State == versions.Current })
			if len(s.Pods) > 0 {
				sources = append(sources, s)
			}
		}
		if w.Sources = sources; len(sources) > 0 {
			some = append(some, w)
		}
	}
	return some
}

// writeFleet prints a fleet for people. Groups in which all pods are current are left out, and so
// is every single pod, unless wide is set.
func (t table) writeFleet(to io.Writer, f fleet) error {
	total := [][]string{
		{"PODS", "CURRENT", "LAGGING", "UNKNOWN", "PENDING"},
		texts(f.Pods, f.Current, f.Lagging, f.Unknown, f.Pending),
	}
	reasons := t.groups(f.Reasons, func(g group) []string {
		return append(texts(g.Lagging, g.Unknown, len(g.Nodes)), strings.Join(g.Drivers, ", "), g.Example, g.Name)
	})
	nodes := t.groups(f.Nodes, func(g group) []string {
		return append([]string{g.Name, strings.Join(g.Drivers, ", ")}, texts(g.Pods, g.Current, g.Lagging, g.Unknown)...)
	})
	drivers := t.groups(f.Drivers, func(g group) []string {
		return append([]string{g.Name}, texts(len(g.Nodes), g.Pods, g.Current, g.Lagging, g.Unknown)...)
	})
	var pods [][]string
	if t.wide {
		t.inNamespaces = true
		pods = t.pods(f.NotCurrent)
	}
	return writeTables(to, total,
		titled(reasons, "LAGGING", "UNKNOWN", "NODES", "DRIVER", "EXAMPLE", "WHY"),
		titled(nodes, "NODE", "DRIVER", "PODS", "CURRENT", "LAGGING", "UNKNOWN"),
		titled(drivers, "DRIVER", "NODES", "PODS", "CURRENT", "LAGGING", "UNKNOWN"),
		pods)
}

func (t table) groups(all []group, row func(group) []string) [][]string {
	var rows [][]string
	for _, g := range all {
		if g.Pods > g.Current || t.wide {
			rows = append(rows, row(g))
		}
	}
	return t.limited(rows)
}

func texts(numbers ...int) []string {
	all := make([]string, len(numbers))
	for i, n := range numbers {
		all[i] = fmt.Sprint(n)
	}
	return all
}
