package update

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

func (s *selection) content() int64 { return int64(s.cfg.Objects) * selectedBytes }

func (s *selection) section() report.Section {
	size := func(bytes int64) string { return report.Bytes.Format(float64(bytes)) }
	floor := s.series(bareWatch, "bare watch with the same selector (floor)")
	seconds := func(key string) string { return s.series(key, "").Typical() }
	return report.Section{
		Key: "selection", Title: "Objects by label",
		Text: fmt.Sprintf("A volume selects %d ConfigMaps of 20 KiB by a label, with a file for each. The driver is a process of the "+
			"benchmark's, and the pod is not real. An edit is timed from the moment before its request is sent, until its new bytes were "+
			"read from the volume.", s.cfg.Objects),
		Groups: []report.Group{{
			Key: "edits", Title: "One edit of a selected object", Floor: bareWatch,
			Series: []report.Series{floor, s.series(selected, "liveconfig")},
		}},
		Tables: []report.Table{{
			Title:  "A volume of all the objects",
			Header: []string{"what", "value"},
			Rows: [][]string{
				{"the content", size(s.content())},
				{"first publish, the driver knows none of the objects", seconds(published)},
				{"growth of the driver's anonymous memory by it", size(s.growth.anonymous)},
				{"growth of its allocated heap, which is a part of that", size(s.growth.heap)},
				{"the files, in memory", size(s.files)},
				{fmt.Sprintf("requests other than watches in %s at rest", s.cfg.Rest), fmt.Sprint(s.requests)},
				{fmt.Sprintf("time in which %d edits of separate objects were made", s.cfg.Burst), seconds(bursts)},
				{"writes of the volume for these edits", report.Count.Format(report.Median(s.writes))},
			},
		}},
		Notes: []string{"Go's heap grows to about twice what is in use before it is collected, and stays that large."},
	}
}

func (s *selection) targets() []report.Target {
	what := fmt.Sprintf("%d selected objects of 20 KiB: ", s.cfg.Objects)
	content := float64(s.content())
	const seconds = 1e9
	return []report.Target{
		{
			Key: "selection-publish", What: what + "first publish", Value: float64(s.series(published, "").Percentile(50)) / seconds,
			Bound: 2, Unit: "s",
		},
		{
			Key: "selection-edit", What: what + "one edit to a bare watch with the same selector, p50",
			Value: s.series(selected, "").Ratio(s.series(bareWatch, ""), 50), Bound: 1.5,
		},
		{Key: "selection-memory", What: what + "the driver's memory to the content", Value: float64(s.growth.anonymous) / content, Bound: 1.3},
		{Key: "selection-idle", What: what + "requests at rest", Value: float64(s.requests), Unit: "requests"},
		{
			Key: "selection-burst", What: fmt.Sprintf("%swrites for %d edits in a second", what, s.cfg.Burst),
			Value: report.Median(s.writes), Bound: float64(s.cfg.Burst) / 2, Unit: "writes",
		},
	}
}
