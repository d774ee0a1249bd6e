package sidecars

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// typical is the median of a process's memory over all pods.
func (b *bench) typical(process string) int64 {
	return report.Series{Runs: [][]int64{b.resident[process]}}.Percentile(50)
}

func (b *bench) ourMemory() int64   { return b.typical(ofOurs) + b.share }
func (b *bench) theirMemory() int64 { return b.typical(ofLister) + b.typical(ofPoller) }

func (b *bench) series() (ours, theirs report.Series) {
	return report.Latencies("ours", "liveconfig-reload beside a live volume", b.edits[0]),
		report.Latencies("sidecars", "sidecars that list and poll", b.edits[1])
}

func (b *bench) section() report.Section {
	ours, theirs := b.series()
	size := func(bytes int64) string { return report.Bytes.Format(float64(bytes)) }
	memory := report.Table{
		Title:  fmt.Sprintf("Memory for a pod, with %d pods on the node (RSS)", len(b.pods)),
		Header: []string{"what", "lists or writes the files", "asks the program", "both"},
		Rows: [][]string{
			{"liveconfig: the driver's share, and liveconfig-reload", size(b.share), size(b.typical(ofOurs)), size(b.ourMemory())},
			{"sidecars that list and poll", size(b.typical(ofLister)), size(b.typical(ofPoller)), size(b.theirMemory())},
		},
	}
	outages := report.Table{
		Title:  "From an edit after an outage to the request that the program gets",
		Header: []string{"outage", "liveconfig, median pod", "liveconfig, last pod", "sidecars, median pod", "sidecars, last pod"},
	}
	for _, o := range b.outages {
		row := []string{o.name}
		for _, took := range [][]int64{o.ours, o.theirs} {
			all := report.Latencies("", "", [][]int64{took})
			row = append(row, all.Typical(), report.Nanoseconds.Format(float64(all.Percentile(100))))
		}
		outages.Rows = append(outages.Rows, row)
	}
	return report.Section{
		Key: "sidecars", Title: "Beside sidecars that list by label and reload",
		Text: fmt.Sprintf("%d ConfigMaps of 20 KiB match a label. In one way a volume selects them, and liveconfig-reload asks the program to "+
			"read them. In the other way, one process for each pod lists and watches them with client-go's informer and writes a "+
			"directory, and another one looks at the directory each second and asks the program. The time is from the moment before "+
			"the request that edits a ConfigMap is sent, until the program is asked and reads the new version.", objects),
		Groups: []report.Group{{
			Key: "edits", Title: "From an edit to the request that the program gets", Floor: ours.Key, Series: []report.Series{ours, theirs},
		}},
		Tables: []report.Table{memory, outages},
		Notes: []string{
			"The processes are the benchmark's, without containers and with a pod that is not real, on loopback.",
			"The sidecars are stand-ins at their best. prometheus-config-reloader waits for a second after it has learned of a change " +
				"(`--delay-interval`), and the stand-in looks each second; k8s-sidecar is a Python program, and the stand-in one in Go. " +
				"liveconfig-reload waits 100 ms after a change (`--settle`).",
			"The driver's share is its RSS and the files of its volumes, which are in memory, by the number of pods: a node has one driver. " +
				"The directory of the sidecars is on the disk, and not counted.",
		},
	}
}

func (b *bench) targets() []report.Target {
	ours, theirs := b.series()
	all := []report.Target{
		{Key: "sidecars-edit", What: "edit to the program's reload: liveconfig to sidecars, p50", Value: ours.Ratio(theirs, 50), Bound: 1},
		{
			Key: "sidecars-memory", What: "memory for a pod: liveconfig to sidecars, RSS",
			Value: float64(b.ourMemory()) / float64(b.theirMemory()), Bound: 1,
		},
	}
	for i, o := range b.outages {
		slowest := report.Latencies("", "", [][]int64{o.ours})
		all = append(all, report.Target{
			Key: fmt.Sprintf("sidecars-outage-%d", i), What: o.name + ": last pod, liveconfig to sidecars",
			Value: slowest.Ratio(report.Latencies("", "", [][]int64{o.theirs}), 100), Bound: 1,
		})
	}
	return all
}
