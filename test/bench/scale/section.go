package scale

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

// section is what goes on the page.
func (b *bench) section() report.Section {
	return report.Section{
		Key: "scale", Title: "Many nodes",
		Text: fmt.Sprintf("Simulated nodes, each with a connection and separate credentials, watch one ConfigMap of 1 KiB that all have "+
			"and %d that no other node has, in a cluster that nothing else uses. A node of liveconfig is the driver's own source layer; one of "+
			"the kubelet's is a reflector of the client library per object, set up as the kubelet does it. From what that costs a model says "+
			"what a large cluster would be.", b.cfg.Own),
		Groups: []report.Group{b.herdGroup()},
		Tables: append([]report.Table{b.editTable(), b.timeTable(), b.herdTable(), b.costTable()}, b.forecastTables()...),
		Charts: []report.Chart{b.editChart()},
		Notes: append([]string{
			fmt.Sprintf("There are %d separate objects on each node, so that a node has several watches, as nodes do, and the machine bears "+
				"500 nodes: API server, etcd and all nodes share its processors. Times until the last node are therefore longer than they would "+
				"be elsewhere; the processor time of the API server is not the nodes'.", b.cfg.Own),
			"The API server writes an audit log of all requests. What a cluster without nodes does is taken off the processor times: when nothing happens, and when it starts.",
			"A time below zero is a node that had the edit before the editor had the answer.",
			"The nodes of liveconfig have tokens of one service account, and those of the kubelet's certificates, as they do in clusters. By " +
				"default an API server has a place in line for each kubelet, and one for all of a service account: they are asked to come " +
				"again later (429).",
			"The kubelet's own volumes change much later than its reflectors know: see the section on updates.",
		}, b.forecastNotes()...),
	}
}

// targets are what holds at any number of nodes.
func (b *bench) targets() []report.Target {
	requests, nodes := 0, 0
	var bytes []report.Point
	for _, p := range b.of(fleet.Driver) {
		requests, nodes = requests+p.edits.requests, p.edits.nodes
		bytes = append(bytes, report.Point{X: float64(nodes), Y: p.edits.received})
	}
	return []report.Target{
		{
			Key: "scale-requests", What: fmt.Sprintf("requests of up to %d nodes while an object of theirs is edited", nodes),
			Value: float64(requests), Unit: "requests",
		},
		report.Growth("scale-growth", fmt.Sprintf("growth in nodes, up to %d, of the bytes that an edit has the API server send", nodes), bytes),
	}
}

// of returns the points of a way.
func (b *bench) of(way fleet.Way) []point {
	return slices.DeleteFunc(slices.Clone(b.points), func(p point) bool { return p.way != way })
}

func (b *bench) editTable() report.Table {
	t := report.Table{
		Title: "What one edit of the ConfigMap that all nodes have costs",
		Header: []string{
			"nodes", "of", "open watches", "events", "bytes sent", "API server's processor time", "etcd's", "nodes' own, all together",
			"requests of nodes",
		},
	}
	for _, p := range append([]point{{way: "nobody", edits: b.empty.edits}}, b.points...) {
		e := p.edits
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(e.nodes), string(p.way), report.Count.Format(e.watches), report.Count.Format(e.events), report.Bytes.Format(e.received),
			duration(e.cluster.apiServer), duration(e.cluster.etcd), duration(e.children), strconv.Itoa(e.requests),
		})
	}
	return t
}

func (b *bench) timeTable() report.Table {
	t := report.Table{
		Title:  "From the answer to an edit until nodes know (medians of the edits)",
		Header: []string{"nodes", "of", "first node", "median node", "99 of 100", "last node"},
	}
	for _, p := range b.points {
		row := []string{strconv.Itoa(p.edits.nodes), string(p.way)}
		for _, times := range [][]int64{p.edits.first, p.edits.median, p.edits.p99, p.edits.last} {
			row = append(row, report.Nanoseconds.Format(median(times)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (b *bench) herdTable() report.Table {
	t := report.Table{
		Title: "When the API server was killed and is back",
		Header: []string{
			"nodes", "of", "away for", "median node is back after", "last node", "requests answered", "asked to come again (429)", "other refusals",
			"tries in vain before", "most requests in a second", "connections made", "processor time of the herd", "for each watch",
		},
	}
	for _, p := range b.points {
		for _, h := range p.herds {
			cost := b.herdCost(h)
			t.Rows = append(t.Rows, []string{
				strconv.Itoa(p.edits.nodes), string(p.way), duration(h.outage), report.Nanoseconds.Format(float64(atPercent(h.back, 50))),
				report.Nanoseconds.Format(float64(h.back[len(h.back)-1])), strconv.Itoa(h.answered), strconv.Itoa(h.rejected), strconv.Itoa(h.failed),
				strconv.Itoa(h.refused), strconv.Itoa(h.peak), strconv.Itoa(h.dialled), duration(cost), duration(cost / time.Duration(b.watchesOf(p))),
			})
		}
	}
	return t
}

// herdCost is what a herd costs beyond a start without nodes.
func (b *bench) herdCost(h herd) time.Duration {
	longer := (h.until - b.empty.herd.until).Seconds()
	return h.cost - b.empty.herd.cost - time.Duration(float64(b.empty.idle)*longer)
}

// watchesOf is how many the nodes have.
func (b *bench) watchesOf(p point) int { return p.edits.nodes * (1 + b.cfg.Own) }

func (b *bench) herdGroup() report.Group {
	g := report.Group{Key: "herd", Title: "From the first answer of an API server that was killed until a node watches everything again"}
	for _, p := range b.points {
		s := report.Series{
			Key: fmt.Sprintf("%s-%d", p.way, p.edits.nodes), Name: fmt.Sprintf("%d nodes of %s", p.edits.nodes, p.way), Unit: report.Nanoseconds,
		}
		for _, h := range p.herds {
			s.Runs = append(s.Runs, h.back)
		}
		if len(s.Runs) > 0 {
			g.Series = append(g.Series, s)
		}
	}
	return g
}

func (b *bench) editChart() report.Chart {
	c := report.Chart{Key: "edit", Title: "Processor time of API server and etcd for an edit", X: "nodes that watch the object", Y: "milliseconds"}
	for _, way := range []fleet.Way{fleet.Driver, fleet.Kubelet} {
		curve := report.Curve{Name: "nodes of " + string(way), Points: []report.Point{{Y: milliseconds(b.empty.edits.cluster.sum())}}}
		for _, p := range b.of(way) {
			curve.Points = append(curve.Points, report.Point{X: float64(p.edits.nodes), Y: milliseconds(p.edits.cluster.sum())})
		}
		c.Curves = append(c.Curves, curve)
	}
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func duration(d time.Duration) string { return report.Nanoseconds.Format(float64(d)) }

func median(times []int64) float64 {
	values := make([]float64, 0, len(times))
	for _, t := range times {
		values = append(values, float64(t))
	}
	return report.Median(values)
}
