package pictures

import (
	"fmt"
	"strconv"
	"strings"
)

// versus is a pair of bars: the row of the page, how the picture calls it, and the figures of liveconfig and of sidecars.
type versus struct {
	row, name  string
	ours, them quantity
}

// quantity is a figure as the page has it, and as a number of bytes or nanoseconds.
type quantity struct {
	text  string
	value float64
}

func comparisons() []versus {
	return []versus{
		{row: "memory for a pod, RSS, 30 pods on the node", name: "memory for a pod"},
		{row: "from an edit to the request that the program gets, p50", name: "edit to reload, p50"},
		{row: "an edit when the API server is back after five minutes, last pod", name: "API server was away"},
		{row: "an edit when open connections have stopped delivering, last pod", name: "connections went silent"},
	}
}

// readComparisons takes the figures from the table of a page.
func readComparisons(page string) ([]versus, error) {
	rows := rowsOf(page)
	all := comparisons()
	for i, v := range all {
		cells := rows[v.row]
		if len(cells) != 2 {
			return nil, fmt.Errorf("the page has no row %q with two figures", v.row)
		}
		for cell, to := range map[string]*quantity{cells[0]: &all[i].ours, cells[1]: &all[i].them} {
			value, err := amount(cell)
			if err != nil {
				return nil, err
			}
			*to = quantity{cell, value}
		}
	}
	return all, nil
}

// rowsOf returns the cells of all rows of tables, by their first ones.
func rowsOf(page string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// amount reads a time or a size of memory, as the pages write them: 3.69 ms, 31.5 MiB.
func amount(text string) (float64, error) {
	number, isSize := strings.CutSuffix(text, " MiB")
	if !isSize {
		took, err := figure(text)
		return float64(took), err
	}
	size, err := strconv.ParseFloat(number, 64)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("%q is no size like 31.5 MiB", text)
	}
	return size, nil
}

// drawSidecars shows pairs of bars. The longer bar of each pair has the same length.
func drawSidecars(page string) (Picture, error) {
	all, err := readComparisons(page)
	if err != nil {
		return Picture{}, err
	}
	const top, row, left, full = 44.0, 60.0, 200.0, 480.0
	foot := top + row*float64(len(all))
	c := newCanvas(foot + 34)
	c.write(label{x: 16, y: 28, class: "soft", text: "Beside the containers that list ConfigMaps by label and ask for a reload: less is better"})
	for i, v := range all {
		y := top + row*float64(i)
		longest := max(v.ours.value, v.them.value)
		c.write(label{x: 16, y: y + 28, text: v.name})
		for j, bar := range []struct {
			quantity
			class string
		}{{v.ours, "ourBar"}, {v.them, "slowBar"}} {
			width := max(2, full*bar.value/longest)
			c.fill(rect{left, y + 4 + 23*float64(j), width, 18}, bar.class)
			c.write(label{x: left + width + 8, y: y + 18 + 23*float64(j), text: bar.text})
		}
	}
	c.fill(rect{16, foot + 8, 24, 10}, "ourBar")
	c.write(label{x: 50, y: foot + 18, class: "soft", text: "liveconfig"})
	c.fill(rect{160, foot + 8, 24, 10}, "slowBar")
	c.write(label{x: 194, y: foot + 18, class: "soft", text: "sidecars. Each pair of bars has its own scale."})
	return c.picture("sidecars.svg", "liveconfig beside sidecars",
		"Pairs of bars: memory for a pod, time from an edit to the reload, and the same after outages."), nil
}
