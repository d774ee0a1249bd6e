package memory

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

func (b *bench) section() report.Section {
	section := report.Section{
		Key:   "memory",
		Title: "Memory",
		Text: "What a process has in memory after it was left alone, by the number of ConfigMaps of 1 KiB that it holds. The driver, a process " +
			"as it is shipped, has a volume of each as well. The others hold the objects and do nothing with them.",
		Tables: []report.Table{b.counts(), b.slopes()},
		Notes: []string{
			fmt.Sprintf("The files of a volume are in memory too, and not in the process: %s each.", report.Bytes.Format(float64(b.perFile))),
			"The kubelet keeps a reflector for each object, among much else. The reflectors here are client-go's, with what a reflector has " +
				"by default, in a program that has nothing else. That program is smaller than the driver by its server, metrics and events, so " +
				"only growth by object is comparable.",
			"An informer for the namespace holds all that is in it, whoever needs it, and must be allowed to read it.",
			"What is called heap has garbage in it, which goes at some later time.",
		},
	}
	chart := report.Chart{Key: "anonymous", Title: "Anonymous memory by number of objects", X: "objects", Y: "MiB"}
	for _, s := range b.subjects {
		curve := report.Curve{Name: s.name}
		for i, f := range s.found {
			curve.Points = append(curve.Points, report.Point{X: float64(b.cfg.Counts[i]), Y: mebibytes(f.Anonymous)})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	section.Charts = []report.Chart{chart}
	return section
}

func (b *bench) counts() report.Table {
	table := report.Table{
		Title: "By number of objects", Header: []string{"what", "objects", "RSS", "anonymous", "heap", "stacks", "goroutines"},
	}
	for _, s := range b.subjects {
		for i, f := range s.found {
			size := func(n int64) string { return report.Bytes.Format(float64(n)) }
			table.Rows = append(table.Rows, []string{
				s.name, fmt.Sprint(b.cfg.Counts[i]), size(f.Resident), size(f.Anonymous), size(f.heap), size(f.stacks), fmt.Sprint(f.goroutines),
			})
		}
	}
	return table
}

// perObject is how much anonymous memory one object more takes, over all counts.
func (b *bench) perObject(s *subject) float64 {
	last := len(b.cfg.Counts) - 1
	return float64(s.found[last].Anonymous-s.found[0].Anonymous) / float64(b.cfg.Counts[last]-b.cfg.Counts[0])
}

func (b *bench) slopes() report.Table {
	table := report.Table{Title: "One object more", Header: []string{"what", "anonymous"}}
	for _, s := range b.subjects {
		table.Rows = append(table.Rows, []string{s.name, report.Bytes.Format(b.perObject(s))})
	}
	return table
}

func (b *bench) targets() []report.Target {
	return []report.Target{{
		What:  "memory by object of 1 KiB: liveconfig with its volume to a reflector for each object",
		Value: b.perObject(b.subjects[0]) / b.perObject(b.subjects[1]), Bound: 0.5,
	}}
}
