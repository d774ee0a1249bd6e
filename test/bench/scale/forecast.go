package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

// large is the cluster that the model is asked about.
func large() Large {
	return Large{Nodes: 5000, PodsPerNode: 110, ObjectsPerPod: 1, Processors: 3 * 16, StreamsPerConnection: 100}
}

// clients are how nodes behave by their settings, with every object read by the driver, with every one read by pods as
// Secrets are, and by the kubelet.
func clients() []described {
	const hour = time.Hour
	driver := Client{Life: 45 * time.Minute, OwnLife: 2 * time.Minute, Relist: 3 * hour / 2, Spread: 10 * time.Second, Told: 1}
	return []described{
		{"liveconfig, ConfigMaps", fleet.Driver, 0, driver},
		{"liveconfig, Secrets", fleet.Driver, 1, driver},
		{"kubelet", fleet.Kubelet, 0, Client{Life: 45 * time.Minute, Spread: time.Minute}},
	}
}

// described is a client, and what it reads.
type described struct {
	name string
	way  fleet.Way
	own  float64
	Client
}

// costs makes of what was measured what one thing costs. The API server does not know what sort of node watches, so that edits
// and memory are by a line through the figures of both. How nodes come back is their own.
func (b *bench) costs(way fleet.Way) Costs {
	nodes, processor := []float64{0}, []float64{float64(b.empty.edits.cluster.sum())}
	watches, memory := []float64{b.empty.edits.watches}, []float64{b.empty.edits.memory}
	c := Costs{Told: b.empty.told}
	for _, p := range b.points {
		nodes, processor = append(nodes, float64(p.edits.nodes)), append(processor, float64(p.edits.cluster.sum()))
		watches, memory = append(watches, p.edits.watches), append(memory, p.edits.memory)
	}
	bare, sent := line(nodes, processor)
	c.Bare, c.Sent = time.Duration(max(bare, 0)), time.Duration(sent)
	_, c.Watch = line(watches, memory)
	for _, p := range b.of(way) {
		c.EventBytes = p.edits.received / float64(p.edits.nodes)
		if len(p.herds) > 0 { // The last is of most nodes.
			c.Relist = b.medianHerdCost(p) / time.Duration(b.watchesOf(p))
		}
	}
	return c
}

func (b *bench) medianHerdCost(p point) time.Duration {
	var all []int64
	for _, h := range p.herds {
		all = append(all, int64(b.herdCost(h)))
	}
	return time.Duration(median(all))
}

func (b *bench) costTable() report.Table {
	t := report.Table{
		Title:  "What one thing costs the API server and etcd, by the straight line through these figures",
		Header: []string{"what", string(fleet.Driver), string(fleet.Kubelet)},
	}
	driver, kubelet := b.costs(fleet.Driver), b.costs(fleet.Kubelet)
	add := func(what string, of func(Costs) string) {
		t.Rows = append(t.Rows, []string{what, of(driver), of(kubelet)})
	}
	add("an open watch, memory, with its share of a connection", func(c Costs) string { return report.Bytes.Format(c.Watch) })
	add("an event of 1 KiB, bytes on the wire", func(c Costs) string { return report.Bytes.Format(c.EventBytes) })
	add("an edit that nobody watches, processor time", func(c Costs) string { return duration(c.Bare) })
	add("each watch that it is sent to", func(c Costs) string { return duration(c.Sent) })
	add("each watch that is listed and opened again after a restart", func(c Costs) string { return duration(c.Relist) })
	add("an Event on a pod", func(c Costs) string { return duration(c.Told) })
	t.Rows = append(t.Rows, []string{
		"connections that a starting node makes, of which it keeps one", b.connections(fleet.Driver), b.connections(fleet.Kubelet),
	})
	return t
}

// connections are those that a node makes when it starts.
func (b *bench) connections(way fleet.Way) string {
	made, nodes := 0, 0
	for _, p := range b.of(way) {
		made, nodes = made+p.dialled, nodes+p.started
	}
	return report.Count.Format(float64(made) / float64(nodes))
}

// reaches are how many nodes have the object that is edited.
func reaches() []int { return []int{10, large().Nodes} }

func (b *bench) forecastTables() []report.Table {
	l := large()
	state := report.Table{
		Title:  fmt.Sprintf("Model: %d nodes with %d pods each", l.Nodes, l.PodsPerNode),
		Header: []string{"what"},
	}
	rows := [][]string{
		{"open watches"},
		{"connections"},
		{"memory of all API servers for them"},
		{"requests a second when nothing happens"},
		{"all API servers restart: requests"},
		{"their processor time"},
		{"until the last node is back, at least"},
		{"requests a second meanwhile"},
	}
	for _, n := range reaches() {
		rows = append(rows,
			[]string{fmt.Sprintf("edit of an object on %d nodes: bytes", n)}, []string{"processor time for the watches"},
			[]string{"until it is sent to the last node, at least"}, []string{"Events that nodes make of it"}, []string{"processor time for these"})
	}
	for _, c := range clients() {
		state.Header = append(state.Header, c.name)
		costs, cluster := b.costs(c.way), l
		cluster.Own = c.own
		cells := costs.Forecast(cluster, c.Client).cells()
		for _, n := range reaches() {
			cells = append(cells, costs.Edit(cluster, c.Client, n).cells()...)
		}
		for i := range rows {
			rows[i] = append(rows[i], cells[i])
		}
	}
	state.Rows = rows
	return []report.Table{state}
}

func (f Forecast) cells() []string {
	lasts := duration(f.Herd.Lasts)
	if f.Herd.IsBusy {
		lasts += " (processors)"
	} else {
		lasts += " (pauses)"
	}
	return []string{
		report.Count.Format(f.Watches), report.Count.Format(f.Connections), report.Bytes.Format(f.Memory), report.Count.Format(f.Steady),
		report.Count.Format(f.Herd.Requests), duration(f.Herd.Processor), lasts, report.Count.Format(f.Herd.Peak),
	}
}

func (e Edit) cells() []string {
	return []string{
		report.Bytes.Format(e.Bytes), duration(e.Processor), duration(e.Last), report.Count.Format(e.Told), duration(e.ToldProcessor),
	}
}

func (b *bench) forecastNotes() []string {
	l := large()
	return []string{
		fmt.Sprintf("The model assumes that costs grow in a straight line, that each pod has %g object that no other pod of its node has, which "+
			"is as bad as it gets with one volume, that all nodes have one volume of the edited object, and that the API servers have %g processors "+
			"like this machine's and use them for nothing else. %d pods are more than Kubernetes is said to bear.",
			l.ObjectsPerPod, l.Processors, l.Nodes*l.PodsPerNode),
		"Watches last 30 to 60 minutes; those by which the API server decides again what pods may read last --recheck-interval, two minutes " +
			"by default. The driver lists each object again every one to two hours. After a long outage its tries are 5 to 10 seconds apart and " +
			"the kubelet's 30 to 60: so long it takes the last node to notice that the API server is back, if that has time for all.",
		"The time for the last node of an edit leaves out the network and what one watch waits for another in one API server.",
		"The kubelet makes no Event when the files of a volume change. The driver makes one for each volume, at most ten at once and then one a " +
			"minute.",
	}
}

// Costs are what one thing costs the API server, as measured. Processor time is that of etcd as well.
type Costs struct {
	// Watch is the memory of an open watch, and EventBytes what is sent when it brings a change.
	Watch, EventBytes float64
	// Bare is for an edit that nobody watches, and Sent for each watch that it is sent to.
	Bare, Sent time.Duration
	// Relist is for an object that is listed and watched again by a node whose connection broke.
	Relist time.Duration
	// Told is for an Event on a pod.
	Told time.Duration
}

// Large is a cluster that cannot be had on one machine.
type Large struct {
	Nodes, PodsPerNode int
	// ObjectsPerPod is how many objects a pod has that no other pod on its node has.
	ObjectsPerPod float64
	// Own is the share of them that is read with the credentials of pods, as Secrets are.
	Own float64
	// Processors are those of all API servers together; none is used for anything else.
	Processors float64
	// StreamsPerConnection is how many requests the API server lets a connection have at a time.
	StreamsPerConnection float64
}

// Client is how nodes behave.
type Client struct {
	// Life is how long a watch stays open on the average, and OwnLife that of one with a pod's credentials. Then it is opened
	// again, which is a request.
	Life, OwnLife time.Duration
	// Relist is how often an object is listed and watched again although all is well; zero for never.
	Relist time.Duration
	// Spread is the longest pause between tries in a long outage: when the API server is back, nodes come within it.
	Spread time.Duration
	// Told is how many Events a node makes for each volume that an edit changes.
	Told float64
}

// Forecast is what the model says.
type Forecast struct {
	Watches, Connections, Memory float64
	// Steady is how many requests there are each second when nothing happens.
	Steady float64
	Herd   Herd
}

// Herd is what follows when all API servers come back.
type Herd struct {
	Requests  float64
	Processor time.Duration
	// Lasts is how long it takes, and IsBusy that the API servers' processors decide that and not the pauses of the nodes.
	Lasts  time.Duration
	IsBusy bool
	// Peak is how many requests there are each second meanwhile.
	Peak float64
}

// Edit is what one costs.
type Edit struct {
	Bytes     float64
	Processor time.Duration
	// Last is how long all processors need for the watches, so the earliest that the last node can know.
	Last time.Duration
	// Told and ToldProcessor are Events that nodes make, and what these cost.
	Told          float64
	ToldProcessor time.Duration
}

// requestsPerRelist are a list and a watch.
const requestsPerRelist = 2

// Forecast returns what nodes that behave so cost the cluster.
func (c Costs) Forecast(l Large, client Client) Forecast {
	perNode := float64(l.PodsPerNode) * l.ObjectsPerPod
	watches := float64(l.Nodes) * perNode
	f := Forecast{
		Watches: watches, Connections: float64(l.Nodes) * math.Ceil(perNode/l.StreamsPerConnection), Memory: watches * c.Watch,
		Steady: watches * (1 - l.Own) / client.Life.Seconds(),
	}
	if l.Own > 0 {
		f.Steady += watches * l.Own / client.OwnLife.Seconds()
	}
	if client.Relist > 0 {
		f.Steady += watches * requestsPerRelist / client.Relist.Seconds()
	}
	f.Herd = Herd{Requests: watches * requestsPerRelist, Processor: times(c.Relist, watches), Lasts: client.Spread}
	if busy := times(f.Herd.Processor, 1/l.Processors); busy > client.Spread {
		f.Herd.Lasts, f.Herd.IsBusy = busy, true
	}
	f.Herd.Peak = f.Herd.Requests / f.Herd.Lasts.Seconds()
	return f
}

// Edit returns what the edit of an object costs that so many nodes have in a volume each.
func (c Costs) Edit(l Large, client Client, nodes int) Edit {
	n := float64(nodes)
	sent := times(c.Sent, n)
	return Edit{
		Bytes: n * c.EventBytes, Processor: c.Bare + sent, Last: times(sent, 1/l.Processors),
		Told: n * client.Told, ToldProcessor: times(c.Told, n*client.Told),
	}
}

func times(d time.Duration, n float64) time.Duration { return time.Duration(float64(d) * n) }

// line returns the straight line that is nearest to points: what there is of y at no x, and what each x adds.
func line(x, y []float64) (base, slope float64) {
	n := float64(len(x))
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return (sy - slope*sx) / n, slope
}
