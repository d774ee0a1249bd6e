package report

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// The measures of a plot, in pixels.
const (
	plotWidth   = 960
	plotHeight  = 420
	marginLeft  = 70
	marginRight = 350 // For the legend.
	marginTop   = 40
	marginFoot  = 50
	lineHeight  = 18
)

// colors can be distinguished by those who see few.
func colors() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}
}

// axis maps values to pixels.
type axis struct {
	low, high  float64 // Values.
	start, end float64 // Pixels.
	isLog      bool
}

func (a axis) at(value float64) float64 {
	low, high := a.low, a.high
	if a.isLog {
		value, low, high = math.Log10(max(value, a.low)), math.Log10(low), math.Log10(high)
	}
	return a.start + (value-low)/(high-low)*(a.end-a.start)
}

// ticks are the powers of ten of a logarithmic axis, or about five round steps.
func (a axis) ticks() []float64 {
	var all []float64
	if a.isLog {
		for v := math.Pow(10, math.Ceil(math.Log10(a.low)-1e-9)); v <= a.high*(1+1e-9); v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := roundStep((a.high - a.low) / 5)
	for v := a.low; v <= a.high+step/1000; v += step {
		all = append(all, v)
	}
	return all
}

// roundStep returns the next number up that is 1, 2 or 5 with zeros.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least {
			return m * power
		}
	}
	return 10 * power
}

// plot is a drawing with two axes.
type plot struct {
	bytes.Buffer

	x, y   axis
	curves int
}

func newPlot(title string, x, y axis) *plot {
	x.start, x.end = marginLeft, plotWidth-marginRight
	y.start, y.end = plotHeight-marginFoot, marginTop
	p := &plot{x: x, y: y}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight)
	p.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, plotHeight)
	p.text(marginLeft, marginTop/2, "start", title)
	return p
}

// printf never fails: a buffer takes all.
func (p *plot) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

func (p *plot) text(x, y float64, anchor, text string) {
	p.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
}

// grid draws both axes with names and values.
func (p *plot) grid(xName, yName string, xLabel, yLabel func(float64) string) {
	for _, v := range p.x.ticks() {
		at := p.x.at(v)
		p.gridLine(at, p.y.start, at, p.y.end)
		p.text(at, p.y.start+16, "middle", xLabel(v))
	}
	for _, v := range p.y.ticks() {
		at := p.y.at(v)
		p.gridLine(p.x.start, at, p.x.end, at)
		p.text(p.x.start-6, at+4, "end", yLabel(v))
	}
	p.text((p.x.start+p.x.end)/2, plotHeight-12, "middle", xName)
	p.printf(`<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		(p.y.start+p.y.end)/2, html.EscapeString(yName))
}

func (p *plot) gridLine(x1, y1, x2, y2 float64) {
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", x1, y1, x2, y2)
}

// curve draws a line through points, and its name in the legend.
func (p *plot) curve(name string, points []Point) {
	color := colors()[p.curves%len(colors())]
	p.printf(`<polyline fill="none" stroke="%s" stroke-width="1.8" points="`, color)
	for _, pt := range points {
		p.printf("%.1f,%.1f ", p.x.at(pt.X), p.y.at(pt.Y))
	}
	p.printf("\"/>\n")
	y := float64(marginTop + lineHeight*p.curves)
	x := float64(plotWidth - marginRight + 14)
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="3"/>`+"\n", x, y, x+16, y, color)
	p.text(x+22, y+4, "start", name)
	p.curves++
}

func (p *plot) svg() []byte {
	p.printf("</svg>\n")
	return p.Bytes()
}
