package memory

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// column is one of the figures of a process.
type column func(figures) float64

func anonymous(f figures) float64      { return float64(f.Anonymous) }
func resident(f figures) float64       { return float64(f.Resident) }
func heap(f figures) float64           { return f.heap }
func stacks(f figures) float64         { return f.stacks }
func heapAndStacks(f figures) float64  { return f.heap + f.stacks }
func goroutineCount(f figures) float64 { return f.goroutines }

// of returns the programs of a kind that hold so many, in the order in which they were started.
func (b *bench) of(k kind, count int) []*subject {
	var all []*subject
	for _, s := range b.subjects {
		if s.kind == k && s.count == count {
			all = append(all, s)
		}
	}
	return all
}

// median returns a figure of the first look: the one in the middle of all runs'.
func (b *bench) median(k kind, count int, c column) float64 { return medianOf(b.of(k, count), c) }

func medianOf(subjects []*subject, c column) float64 {
	values := make([]float64, 0, len(subjects))
	for _, s := range subjects {
		values = append(values, c(s.found[0]))
	}
	return report.Median(values)
}

// more returns by how much a figure grows with each object from one count to another: the median of the runs.
func (b *bench) more(k kind, from, to int, c column) float64 {
	return report.Median(b.moreByRun(k, from, to, c))
}

func (b *bench) moreByRun(k kind, from, to int, c column) []float64 {
	before, after := b.of(k, from), b.of(k, to)
	all := make([]float64, 0, len(after))
	for i := range after {
		all = append(all, (c(after[i].found[0])-c(before[i].found[0]))/float64(to-from))
	}
	return all
}

// ends are the smallest and the largest count.
func (b *bench) ends() (first, last int) { return b.cfg.Counts[0], b.cfg.Counts[len(b.cfg.Counts)-1] }

func (b *bench) section() report.Section {
	first, last := b.ends()
	return report.Section{
		Key:   "memory",
		Title: "Memory",
		Text: fmt.Sprintf("What a process has in memory after it was left alone for %s, by the number of ConfigMaps of 1 KiB that it holds. "+
			"Each row is of separate processes, all left alone at the same time. The driver is a process as it is shipped, and has a "+
			"volume of each object as well, or all its volumes are of one object. The others hold the objects in client-go's stores and do "+
			"nothing with them.", b.cfg.Rest),
		Tables: []report.Table{b.counts(), b.slopes(), b.unrelated()},
		Charts: []report.Chart{b.chart()},
		Notes: []string{
			"Anonymous is what a process cannot read again from the disk: heap, stacks and Go's accounts of them, with the garbage that was not " +
				"yet given back. RSS has the pages of the program as well, which all drivers of a node's image share.",
			fmt.Sprintf("The files of a volume are in memory too, and not in the process: %s each.", report.Bytes.Format(float64(b.perFile))),
			fmt.Sprintf("One object more is the difference between %d and %d of them, so that what a program needs by itself, and what its "+
				"libraries are, counts for nobody.", first, last),
			"The kubelet keeps a reflector for each object, among much else. The reflectors here are client-go's, with what a reflector has " +
				"by default, by the same encoding and over the same kind of connection as the driver's. Their program has nothing else.",
			"An informer for the namespace holds all that is in it, anyone who needs it, and must be allowed to read it.",
			"What is called heap has garbage in it, which goes at some later time.",
		},
	}
}

func (b *bench) chart() report.Chart {
	chart := report.Chart{Key: "anonymous", Title: "Anonymous memory by number of objects or volumes", X: "objects or volumes", Y: "MiB"}
	for _, k := range kinds() {
		curve := report.Curve{Name: k.name()}
		for _, n := range b.cfg.Counts {
			curve.Points = append(curve.Points, report.Point{X: float64(n), Y: mebibytes(b.median(k, n, anonymous))})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	return chart
}

func (b *bench) counts() report.Table {
	table := report.Table{
		Title:  "By number of objects or volumes",
		Header: []string{"what", "number", "processes", "RSS", "anonymous", "heap", "stacks", "goroutines"},
	}
	for _, k := range kinds() {
		for _, n := range b.cfg.Counts {
			row := []string{k.name(), fmt.Sprint(n), fmt.Sprint(len(b.of(k, n)))}
			for _, c := range []column{resident, anonymous, heap, stacks} {
				row = append(row, report.Bytes.Format(b.median(k, n, c)))
			}
			table.Rows = append(table.Rows, append(row, report.Count.Format(b.median(k, n, goroutineCount))))
		}
	}
	return table
}

// slopes reports what one more takes: from each count to the next, and over all.
func (b *bench) slopes() report.Table {
	table := report.Table{Title: "One more", Header: []string{"what"}}
	for i := range b.cfg.Counts[1:] {
		table.Header = append(table.Header, fmt.Sprintf("anonymous, %d to %d", b.cfg.Counts[i], b.cfg.Counts[i+1]))
	}
	table.Header = append(table.Header, "anonymous, all", "RSS, all", "heap and stacks, all", "goroutines")
	for _, k := range kinds() {
		table.Rows = append(table.Rows, b.slope(k.name(), func(from, to int, c column) float64 { return b.more(k, from, to, c) }))
	}
	table.Rows = append(table.Rows, b.slope("liveconfig, an object without its volume: the difference", func(from, to int, c column) float64 {
		return b.more(objects, from, to, c) - b.more(volumes, from, to, c)
	}))
	return table
}

func (b *bench) slope(name string, more func(from, to int, c column) float64) []string {
	row := []string{name}
	size := func(from, to int, c column) { row = append(row, report.Bytes.Format(more(from, to, c))) }
	for i := range b.cfg.Counts[1:] {
		size(b.cfg.Counts[i], b.cfg.Counts[i+1], anonymous)
	}
	first, last := b.ends()
	for _, c := range []column{anonymous, resident, heapAndStacks} {
		size(first, last, c)
	}
	return append(row, report.Count.Format(more(first, last, goroutineCount)))
}

// smallOf returns the programs of a kind that are looked at twice.
func (b *bench) smallOf(k kind) []*subject {
	var all []*subject
	for _, s := range b.small {
		if s.kind == k {
			all = append(all, s)
		}
	}
	return all
}

// growths are by how much programs have grown from the first look to the second.
func growths(subjects []*subject, c column) float64 {
	var all []float64
	for _, s := range subjects {
		all = append(all, c(s.found[1])-c(s.found[0]))
	}
	return report.Median(all)
}

func (b *bench) unrelated() report.Table {
	table := report.Table{
		Title: fmt.Sprintf("%d objects of 4 KiB, before and after %d others come that nobody uses, half of them in the same namespace",
			smallVolumes, b.cfg.Unrelated),
		Header: []string{"what", "processes", "RSS before", "anonymous before", "growth of anonymous", "growth of heap and stacks"},
	}
	for _, k := range []kind{objects, informer} {
		all := b.smallOf(k)
		table.Rows = append(table.Rows, []string{
			k.name(), fmt.Sprint(len(all)), report.Bytes.Format(medianOf(all, resident)), report.Bytes.Format(medianOf(all, anonymous)),
			report.Bytes.Format(growths(all, anonymous)), report.Bytes.Format(growths(all, heapAndStacks)),
		})
	}
	return table
}

func (b *bench) targets() []report.Target {
	first, last := b.ends()
	ours, theirs := b.moreByRun(objects, first, last, anonymous), b.moreByRun(reflectors, first, last, anonymous)
	ratios := make([]float64, 0, len(ours))
	for i := range ours {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	small := b.smallOf(objects)
	what := fmt.Sprintf("memory, %d volumes of 4 KiB: ", smallVolumes)
	targets := []report.Target{
		{
			Key:   "memory-object",
			What:  "memory, one object of 1 KiB more: liveconfig with its volume to a reflector for each object, anonymous",
			Value: report.Median(ratios), Bound: 0.5,
		},
		{Key: "memory-anonymous", What: what + "anonymous", Value: mebibytes(medianOf(small, anonymous)), Bound: 16, Unit: "MiB"},
		{Key: "memory-rss", What: what + "RSS", Value: mebibytes(medianOf(small, resident)), Bound: 40, Unit: "MiB"},
		{
			Key:   "memory-unrelated",
			What:  fmt.Sprintf("%sgrowth by %d unrelated objects of 4 KiB (unchanged, but for what it varies by)", what, b.cfg.Unrelated),
			Value: mebibytes(growths(small, anonymous)), Bound: 0.5, Unit: "MiB",
		},
	}
	for _, k := range []kind{objects, volumes} {
		if len(b.cfg.Counts) > 2 {
			targets = append(targets, report.Growth("growth-memory-"+string(k), "growth: anonymous memory, "+k.name()+", by their number", b.increments(k)))
		}
	}
	return targets
}

// increments are what more than the smallest count take.
func (b *bench) increments(k kind) []report.Point {
	first, _ := b.ends()
	var points []report.Point
	for _, n := range b.cfg.Counts[1:] {
		points = append(points, report.Point{
			X: float64(n - first), Y: b.median(k, n, anonymous) - b.median(k, first, anonymous),
		})
	}
	return points
}

func mebibytes(n float64) float64 { return n / (1 << 20) }
