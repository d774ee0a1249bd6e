package pictures

import (
	"fmt"
	"html"
	"strings"
)

// Widths of a letter in parts of the size of the text: those of a wide font, so that narrower ones fit too.
const (
	ofLetter = 0.6
	ofBold   = 0.68
)

// rect is a rectangle in pixels.
type rect struct{ x, y, w, h float64 }

// inside reports whether the other rectangle leaves none of its sides.
func (r rect) inside(of rect) bool {
	return r.x >= of.x && r.y >= of.y && r.x+r.w <= of.x+of.w && r.y+r.h <= of.y+of.h
}

// canvas collects the elements of one picture. It remembers texts that leave the place that they should be in.
type canvas struct {
	page    rect
	shapes  strings.Builder
	motion  string // The frames of animations, in CSS.
	escaped []string
}

func newCanvas(height float64) *canvas {
	return &canvas{page: rect{w: 800, h: height}}
}

// size returns the size of the text of a class.
func size(class string) float64 {
	if class == "name" {
		return 14
	}
	return 13
}

// label is a text at a point: its class, and whether it begins, ends or has its middle there.
type label struct {
	x, y   float64
	class  string
	anchor string
	text   string
}

// extent returns the place that the text takes in a wide font.
func (l label) extent() rect {
	letter := map[string]float64{"name": ofBold}[l.class]
	if letter == 0 {
		letter = ofLetter
	}
	width := letter * size(l.class) * float64(len([]rune(l.text)))
	left := map[string]float64{"middle": width / 2, "end": width}[l.anchor]
	return rect{x: l.x - left, y: l.y - size(l.class), w: width, h: size(l.class) + 3}
}

// write puts a text on the page.
func (c *canvas) write(l label) { c.writeInside(c.page, l) }

// writeInside puts a text into a rectangle, and remembers it if it comes too near to the sides of that.
func (c *canvas) writeInside(frame rect, l label) {
	const margin = 4
	frame.x, frame.w = frame.x+margin, frame.w-2*margin
	if !l.extent().inside(frame) {
		c.escaped = append(c.escaped, l.text)
	}
	if l.anchor == "" {
		l.anchor = "start"
	}
	fmt.Fprintf(&c.shapes, "<text x=\"%s\" y=\"%s\" class=%q text-anchor=%q>%s</text>\n",
		pixels(l.x), pixels(l.y), l.class, l.anchor, html.EscapeString(l.text))
}

// fill draws a rectangle.
func (c *canvas) fill(r rect, class string) {
	fmt.Fprintf(&c.shapes, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"4\" class=%q/>\n",
		pixels(r.x), pixels(r.y), pixels(r.w), pixels(r.h), class)
}

// box draws a rectangle with a name and lines below it, all in its middle.
func (c *canvas) box(r rect, class, name string, lines ...string) {
	c.fill(r, class)
	y := r.y + r.h/2 - float64(len(lines))*9 + 5
	c.writeInside(r, label{x: r.x + r.w/2, y: y, class: "name", anchor: "middle", text: name})
	for i, line := range lines {
		c.writeInside(r, label{x: r.x + r.w/2, y: y + 18*float64(i+1), class: "soft", anchor: "middle", text: line})
	}
}

// line draws a line; with an arrow at its end if the class is "arrow".
func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.shapes, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" class=%q/>\n",
		pixels(x1), pixels(y1), pixels(x2), pixels(y2), class)
}

// number draws a small disk with a number.
func (c *canvas) number(x, y float64, n int) {
	fmt.Fprintf(&c.shapes, "<circle cx=\"%s\" cy=\"%s\" r=\"10\" class=\"disk\"/>\n", pixels(x), pixels(y))
	c.write(label{x: x, y: y + 5, class: "onDisk", anchor: "middle", text: fmt.Sprint(n)})
}

// svg returns the picture with its title and description, which screen readers speak.
func (c *canvas) svg(title, description string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %[1]s %[2]s\" width=\"%[1]s\" height=\"%[2]s\" "+
		"role=\"img\" aria-labelledby=\"title desc\">\n", pixels(c.page.w), pixels(c.page.h))
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, "<desc id=\"desc\">%s</desc>\n", html.EscapeString(description))
	b.WriteString(style)
	if c.motion != "" {
		fmt.Fprintf(&b, "<style>\n%s%s</style>\n", c.motion, still)
	}
	fmt.Fprintf(&b, "<rect x=\"0.5\" y=\"0.5\" width=\"%s\" height=\"%s\" rx=\"8\" class=\"paper\"/>\n",
		pixels(c.page.w-1), pixels(c.page.h-1))
	b.WriteString(c.shapes.String())
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// pixels writes a number with at most one digit after the point.
func pixels(n float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}

// still stops animations for people who do not want motion.
const still = "@media (prefers-reduced-motion: reduce) { g { animation: none !important } }\n"

// style has the colours for light and for dark screens.
const style = `<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">` +
	`<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.name { font-size: 14px; font-weight: 600 }
.soft { fill: #505a64 }
.mono { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.onDisk { fill: #ffffff; font-weight: 600 }
.disk, .ourBar, .head { fill: #0969da }
.paper { fill: #ffffff; stroke: #d1d9e0 }
.box { fill: #f3f5f7; stroke: #8c959f }
.ours, .second { fill: #ddf4ff; stroke: #0969da }
.first { fill: #fff1d6; stroke: #9a6700 }
.warn { fill: #ffebe9; stroke: #cf222e }
.frame { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
.floorBar { fill: #8c959f }
.slowBar { fill: #bc4c00 }
.fails { fill: #cf222e; font-weight: 600 }
.grid { stroke: #d1d9e0 }
.arrow { stroke: #0969da; stroke-width: 2; marker-end: url(#head) }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.soft { fill: #b0b9c2 }
.onDisk { fill: #0d1117 }
.disk, .ourBar, .head { fill: #58a6ff }
.paper { fill: #0d1117; stroke: #3d444d }
.box { fill: #1c2229; stroke: #7d8590 }
.ours, .second { fill: #10294a; stroke: #58a6ff }
.first { fill: #3a2a06; stroke: #d29922 }
.warn { fill: #40161a; stroke: #f85149 }
.frame { stroke: #7d8590 }
.floorBar { fill: #7d8590 }
.slowBar { fill: #f0883e }
.fails { fill: #ff7b72 }
.grid { stroke: #3d444d }
.arrow { stroke: #58a6ff }
}
</style>
`
