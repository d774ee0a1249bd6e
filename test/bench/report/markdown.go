package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// markdown collects text.
type markdown struct{ strings.Builder }

// print never fails: a builder takes all.
func (p *markdown) print(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// table writes a table whose first column is text and whose others are figures.
func (p *markdown) table(header []string, rows [][]string) {
	p.print("\n| %s |\n|%s\n", strings.Join(header, " | "), " --- |"+strings.Repeat(" ---: |", len(header)-1))
	for _, row := range rows {
		p.print("| %s |\n", strings.Join(row, " | "))
	}
}

// Markdown returns the page. Plots are linked by the names that [Result.Plots] gives them, below a folder.
func (r Result) Markdown(plots string) string {
	var p markdown
	p.print("# Results\n\nWritten by `make bench` on %s, in %s.\n", r.Begun.UTC().Format("2006-01-02"), r.Took.Round(time.Second))
	if r.Quick {
		p.print("\n**A quick run: few samples, and one run of each. The figures are indications.**\n")
	}
	rest := r.rest(plots)
	return p.String() + r.Summary.Markdown(rest, plots) + rest
}

// rest returns what follows the summary.
func (r Result) rest(plots string) string {
	var p markdown
	r.writeTargets(&p)
	r.writeRemarks(&p)
	r.writeFacts(&p)
	for _, s := range r.Sections {
		s.write(&p, plots)
	}
	return p.String()
}

// TargetsTable returns the table of targets alone.
func (r Result) TargetsTable() string {
	var p markdown
	r.writeTargets(&p)
	return p.String()
}

func (r Result) writeTargets(p *markdown) {
	p.print("\n## Targets\n\nWhere there are several runs, a figure is the median of theirs.\n")
	rows := make([][]string, 0, len(r.Targets))
	for _, t := range r.Targets {
		rows = append(rows, []string{t.What, unitOf(digits(t.Value), t.Unit), t.bound(), t.verdict()})
	}
	p.table([]string{"what", "measured", "target", "reached"}, rows)
}

func unitOf(value, unit string) string {
	if unit == "" {
		return value + " ×"
	}
	return value + " " + unit
}

func (t Target) bound() string {
	sign := "≤"
	if t.AtLeast {
		sign = "≥"
	}
	return sign + " " + unitOf(digits(t.Bound), t.Unit)
}

func (t Target) verdict() string {
	if t.Reached() {
		return "pass"
	}
	return "**FAIL**"
}

// writeRemarks says of each target that is not reached what bounds it, or that nobody has looked yet.
func (r Result) writeRemarks(p *markdown) {
	head := "\nWhat bounds those that are not reached:\n\n"
	for _, t := range r.Targets {
		if !t.Reached() {
			p.print("%s- %s: %s\n", head, t.What, cmp.Or(t.Remark, "**nobody has said yet.**"))
			head = ""
		}
	}
}

func (r Result) writeFacts(p *markdown) {
	p.print("\n## Machine and versions\n")
	rows := make([][]string, 0, len(r.Facts))
	for _, f := range r.Facts {
		rows = append(rows, []string{f.Name, f.Value})
	}
	p.table([]string{"what", "value"}, rows)
}

func (s Section) write(p *markdown, plots string) {
	p.print("\n## %s\n\n%s\n", s.Title, s.Text)
	for _, g := range s.Groups {
		g.write(p, s.Key, plots)
	}
	for _, t := range s.Tables {
		p.print("\n### %s\n", t.Title)
		p.table(t.Header, t.Rows)
	}
	for _, c := range s.Charts {
		p.print("\n![%s](%s/%s)\n", c.Title, plots, fileOf(s.Key, c.Key))
	}
	s.writeFiles(p)
	if len(s.Notes) == 0 {
		return
	}
	p.print("\nWhat to know about these figures:\n\n")
	for _, n := range s.Notes {
		p.print("- %s\n", n)
	}
}

func (s Section) writeFiles(p *markdown) {
	if len(s.Files) > 0 {
		p.print("\n")
	}
	for _, f := range s.Files {
		p.print("- [%s](%s/%s)\n", f.Title, s.Key, f.Name)
	}
}

func (g Group) write(p *markdown, section, plots string) {
	p.print("\n### %s\n", g.Title)
	floor, compared := g.floor()
	header := []string{"what", "samples", "p50", "p95", "p99", "max"}
	if compared {
		header = append(header, "p50 to floor", "p99 to floor")
	}
	rows := make([][]string, 0, len(g.Series))
	for _, s := range g.Series {
		all := s.All()
		row := []string{s.Name, fmt.Sprint(len(all))}
		for _, percent := range []float64{50, 95, 99, 100} {
			row = append(row, s.Unit.Format(float64(percentile(all, percent))))
		}
		if compared {
			row = append(row, times(s.Ratio(floor, 50)), times(s.Ratio(floor, 99)))
		}
		rows = append(rows, row)
	}
	p.table(header, rows)
	if g.Key != "" {
		p.print("\n![%s: how many samples took at most so long](%s/%s)\n", g.Title, plots, fileOf(section, g.Key))
	}
}
