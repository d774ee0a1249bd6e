package pictures

import "fmt"

// phase is a column of the release: its heading, its width, and how many pods have which edit.
type phase struct {
	name, line string
	width      float64
	pods       int
	edit       string // B is the first edit and C the second one; A is what was stable before.
}

func phases() []phase {
	return []phase{
		{"stable", "all pods", 84, 6, "A"},
		{"edit B", "checked", 74, 6, "A"},
		{"step 1", "1 pod", 70, 1, "B"},
		{"step 2", "3 pods", 90, 3, "B"},
		{"taken", "back", 80, 6, "A"},
		{"edit C", "checked", 74, 6, "A"},
		{"step 1", "1 pod", 70, 1, "C"},
		{"step 2", "3 pods", 70, 3, "C"},
		{"stable", "all pods", 84, 6, "C"},
	}
}

// drawRelease shows which pod has which content while a bad edit is taken back and its correction reaches all.
func drawRelease() Picture {
	const pods, left, top, row = 6, 88.0, 66.0, 30.0
	c := newCanvas(346)
	for i := range pods {
		c.write(label{x: 16, y: top + row*float64(i) + 18, text: fmt.Sprintf("web-%d", i)})
	}
	copyAt := top + row*pods + 10
	c.write(label{x: 16, y: copyAt + 18, class: "soft", text: "new pods"})
	x := left
	for _, p := range phases() {
		c.write(label{x: x + p.width/2, y: 32, class: "name", anchor: "middle", text: p.name})
		c.write(label{x: x + p.width/2, y: 52, class: "soft", anchor: "middle", text: p.line})
		for i := range pods {
			content := "A"
			if i < p.pods {
				content = p.edit
			}
			drawContent(c, rect{x + 1, top + row*float64(i), p.width - 2, row - 4}, content)
		}
		drawContent(c, rect{x + 1, copyAt, p.width - 2, row - 4}, stable(p))
		x += p.width
	}
	drawFailure(c, top+row)
	for i, text := range []string{
		"A is what all pods had. A pod with B is no longer Ready, and all pods have A again within a second.",
		"C is the correction: checked, shown step by step, then stable. No pod restarts for any of this.",
	} {
		c.write(label{x: 16, y: copyAt + 52 + 22*float64(i), class: "soft", text: text})
	}
	return c.picture("release.svg", "The life of a release",
		"An edit reaches one pod, then three. One of them fails, and the edit is taken back. Its correction reaches all pods.")
}

// drawFailure marks the pod that fails with the first edit, at the end of its second step.
func drawFailure(c *canvas, y float64) {
	failed := rect{x: 88 + 84 + 74 + 70 + 1, y: y, w: 88, h: 26}
	c.fill(failed, "warn")
	c.writeInside(failed, label{x: failed.x + failed.w/2, y: y + 18, class: "fails", anchor: "middle", text: "B fails"})
}

// stable returns what a pod gets that starts now.
func stable(p phase) string {
	if p.pods < 6 {
		return "A"
	}
	return p.edit
}

func drawContent(c *canvas, r rect, content string) {
	c.fill(r, map[string]string{"A": "box", "B": "first", "C": "second"}[content])
	c.writeInside(r, label{x: r.x + r.w/2, y: r.y + 18, anchor: "middle", text: content})
}
