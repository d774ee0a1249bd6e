package scale

import (
	"math"
	"time"
)

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
