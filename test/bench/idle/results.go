package idle

import (
	"fmt"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

func (b *bench) section() report.Section {
	table := report.Table{
		Title: fmt.Sprintf("%d volumes in %s", b.cfg.Volumes, time.Duration(b.cfg.Runs)*b.cfg.Quiet),
		Header: []string{
			"driver", "processor time", "of a core", "by part of the time", "wake-ups a second", "open watches", "watches opened", "other requests",
		},
	}
	for _, s := range b.subjects {
		table.Rows = append(table.Rows, []string{
			s.name, report.Nanoseconds.Format(float64(s.total().CPU)), fmt.Sprintf("%.4f %%", 100*s.share(b.cfg.Quiet)), s.parts(b.cfg.Quiet),
			report.Count.Format(float64(s.total().WakeUps) / float64(b.cfg.Runs) / b.cfg.Quiet.Seconds()),
			fmt.Sprint(s.open), fmt.Sprint(s.watches), fmt.Sprint(s.others),
		})
	}
	section := report.Section{
		Key:   "idle",
		Title: "Idle cost",
		Text: "What the driver does while no object changes and no pod comes or goes. Processor time and wake-ups are the kernel's account " +
			"of the process, requests are from the API server's audit log.",
		Tables: []report.Table{table},
		Notes: []string{
			"The kubelet looks after each volume every 60 to 90 seconds, by about six calls, and makes a new connection for each of them. That " +
				"is most of what the driver on the node does, and the profile of the processor at rest says what of.",
			fmt.Sprintf("For these calls the kubelet has asked the API server for %d tokens meanwhile. It keeps them for most of an hour.", b.tokens),
			"What is of a core is the median of the parts of the time. A wake-up is a thread that has waited and goes on; those of threads that " +
				"have ended are not counted.",
		},
	}
	for _, r := range b.unexpected {
		section.Notes = append(section.Notes, fmt.Sprintf("A request while nothing happens: `%s`.", r))
	}
	return section
}

func (s *subject) total() (all proc.Work) {
	for _, w := range s.work {
		all.CPU += w.CPU
		all.WakeUps += w.WakeUps
	}
	return all
}

// shares are the parts of a processor that were used, by run.
func (s *subject) shares(quiet time.Duration) []float64 {
	all := make([]float64, 0, len(s.work))
	for _, w := range s.work {
		all = append(all, w.CPU.Seconds()/quiet.Seconds())
	}
	return all
}

func (s *subject) share(quiet time.Duration) float64 { return report.Median(s.shares(quiet)) }

func (s *subject) parts(quiet time.Duration) string {
	texts := make([]string, 0, len(s.work))
	for _, share := range s.shares(quiet) {
		texts = append(texts, fmt.Sprintf("%.4f %%", 100*share))
	}
	return strings.Join(texts, ", ")
}

func (b *bench) targets() []report.Target {
	var all []report.Target
	for _, s := range b.subjects {
		all = append(all,
			report.Target{
				Key: "idle-processor-" + s.key, What: "idle, " + s.name + ": processor", Value: 100 * s.share(b.cfg.Quiet), Bound: 0.1, Unit: "% of a core",
			},
			report.Target{
				Key: "idle-requests-" + s.key, What: "idle, " + s.name + ": requests other than open watches", Value: float64(s.others),
				Bound: 0, Unit: "requests",
			})
	}
	return all
}
