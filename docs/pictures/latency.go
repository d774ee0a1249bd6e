package pictures

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// measured is a bar of the picture: the row of the page, how the picture calls it, and the class of its bar.
type measured struct {
	row, name, class string
	took, floor      time.Duration
	figure           string // As the page has it.
}

func latencies() []measured {
	return []measured{
		{row: "from an edit to the new bytes in one volume, object of 1 KiB", name: "one volume, 1 KiB", class: "ourBar"},
		{row: "the same, object of 1 MiB", name: "one volume, 1 MiB", class: "ourBar"},
		{row: "the same, 1 KiB, in 110 equal volumes, until all have it", name: "110 equal volumes", class: "ourBar"},
		{row: "the same, 1 KiB, in 110 volumes with different modes", name: "110 different volumes", class: "ourBar"},
		{row: "from the exposure of a [release](releases.md) to 110 volumes", name: "a step of a release", class: "ourBar"},
		{row: "the same, 1 KiB, in the kubelet's own `configMap` volume", name: "the kubelet's volume", class: "slowBar"},
	}
}

// readLatencies takes the figures from the table of a page.
func readLatencies(page string) ([]measured, error) {
	rows := rowsOf(page)
	all := latencies()
	for i, m := range all {
		cells := rows[m.row]
		if len(cells) != 2 {
			return nil, fmt.Errorf("the page has no row %q with two figures", m.row)
		}
		all[i].figure = cells[0]
		var err error
		if all[i].took, err = figure(cells[0]); err != nil {
			return nil, err
		}
		if all[i].floor, err = figure(cells[1]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// figure reads a time as the pages write it: 3.69 ms.
func figure(text string) (time.Duration, error) {
	took, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil || took <= 0 {
		return 0, fmt.Errorf("%q is no time like 3.69 ms", text)
	}
	return took, nil
}

// drawLatency shows the time from an edit to the new bytes, on a scale where each line is ten times the one before.
func drawLatency(page string) (Picture, error) {
	all, err := readLatencies(page)
	if err != nil {
		return Picture{}, err
	}
	const top, row = 50.0, 42.0
	foot := top + row*float64(len(all))
	c := newCanvas(foot + 62)
	c.write(label{x: 16, y: 28, class: "soft", text: "From an edit to the new bytes in the files, medians"})
	for i, mark := range []string{"1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"} {
		x := atTime(time.Duration(math.Pow10(i)) * time.Millisecond)
		c.line(x, top-6, x, foot, "grid")
		c.write(label{x: x, y: foot + 18, class: "soft", anchor: "middle", text: mark})
	}
	for i, m := range all {
		y := top + row*float64(i)
		c.write(label{x: 16, y: y + 18, text: m.name})
		c.fill(rect{atTime(time.Millisecond), y + 2, atTime(m.took) - atTime(time.Millisecond), 18}, m.class)
		c.fill(rect{atTime(time.Millisecond), y + 23, atTime(m.floor) - atTime(time.Millisecond), 6}, "floorBar")
		c.write(label{x: atTime(m.took) + 8, y: y + 16, text: m.figure})
	}
	c.fill(rect{16, foot + 36, 24, 6}, "floorBar")
	c.write(label{x: 50, y: foot + 44, class: "soft", text: "the floor: a bare watch that does nothing. Each line is ten times the one before."})
	return c.picture("latency.svg", "How long an edit takes", "Bars on a logarithmic scale: liveconfig takes milliseconds, the kubelet's volume most of a minute."), nil
}

// atTime returns the place of a time on the scale.
func atTime(took time.Duration) float64 {
	const left, decade = 200.0, 108.0
	return left + decade*max(0, math.Log10(float64(took)/float64(time.Millisecond)))
}
