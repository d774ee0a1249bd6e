package main

import "github.com/liveconfig-csi/liveconfig/test/bench/report"

// The tables that the summary has numbers of.
const (
	besideKubelet  = "Volumes of both kinds in one pod, ConfigMaps of 1 KiB"
	inManyVolumes  = "One ConfigMap of 1 KiB in 110 volumes"
	byNumber       = "By number of objects or volumes"
	oneMore        = "One more"
	published      = "Volumes of 1 KiB, one by one"
	atRest         = "110 volumes in "
	ofSelected     = "A volume of all the objects"
	manyNodes      = "What one edit of the ConfigMap that all nodes have costs"
	withObject     = "liveconfig, objects with a volume each"
	withReflector  = "a reflector for each object"
	withKubelet    = "on the node, one object in all volumes, the kubelet calls"
	withoutKubelet = "by itself, an object for each volume, nobody calls"
)

// summary says which numbers the page begins with, and where it has them.
func summary() report.Summary {
	return report.Summary{Picture: "kubelet-in-tree.svg", Numbers: []report.Number{
		{
			What: "from an edit to the new file: p50, p99", Ours: cells(besideKubelet, "liveconfig", "p50", "p99"),
			Other: "the kubelet's `configMap` volume", Theirs: cells(besideKubelet, "the kubelet's configMap volume", "p50", "p99"),
		},
		{
			What:  "from an edit to the new files of all 110 pods of a node: p50, p99",
			Ours:  cells(inManyVolumes, "liveconfig, last volume", "p50", "p99"),
			Other: "a bare watch, without files", Theirs: cells(inManyVolumes, "bare watch (floor)", "p50", "p99"),
		},
		{
			What: "memory of the driver of 110 pods, each with an object of its own: RSS", Ours: cells(byNumber, withObject+" | 110", "RSS"),
			Other: withReflector, Theirs: cells(byNumber, withReflector+" | 110", "RSS"),
		},
		{
			What: "memory that one more such pod takes", Ours: cells(oneMore, withObject, "anonymous, all"),
			Other: withReflector, Theirs: cells(oneMore, withReflector, "anonymous, all"),
		},
		{What: "memory that one more pod of the same object takes", Ours: cells(oneMore, "liveconfig, volumes of one object", "anonymous, all")},
		{
			What:  "to publish a volume of an object that the node watches: p50, p99",
			Ours:  cells(published, "liveconfig, object already watched", "p50", "p99"),
			Other: "bare system calls", Theirs: cells(published, "bare system calls (floor)", "p50", "p99"),
		},
		{
			What: "to publish a volume of another object: p50, p99",
			Ours: cells(published, "liveconfig, object that nobody has read", "p50", "p99"),
		},
		{What: "requests to the API server at rest, but for open watches", Ours: cells(atRest, withoutKubelet, "other requests")},
		{
			What: "part of a processor at rest", Ours: cells(atRest, withoutKubelet, "of a core"),
			Other: "with the calls of the kubelet", Theirs: cells(atRest, withKubelet, "of a core"),
		},
		{
			What:  "an edit that 500 simulated nodes see, processor time of the API server",
			Ours:  cells(manyNodes, "500 | liveconfig", "API server's processor time"),
			Other: "500 kubelets", Theirs: cells(manyNodes, "500 | kubelet", "API server's processor time"),
		},
		{What: "200 edits in a second of objects in one volume: writes of it", Ours: cells(ofSelected, "writes of the volume for these edits", "value")},
	}}
}

// cells returns cells of a row.
func cells(table, row string, columns ...string) []report.Cell {
	all := make([]report.Cell, 0, len(columns))
	for _, column := range columns {
		all = append(all, report.Cell{Table: table, Row: row, Column: column})
	}
	return all
}
