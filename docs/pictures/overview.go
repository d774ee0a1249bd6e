package pictures

// drawOverview shows the way of an edit, from the object to the program that reads a file.
func drawOverview() Picture {
	c := newCanvas(340)
	for _, head := range []label{
		{x: 16, text: "you edit"}, {x: 200, text: "the cluster"}, {x: 366, text: "each node"},
	} {
		c.write(label{x: head.x, y: 28, class: "soft", text: head.text})
	}
	sources := []struct{ name, line string }{
		{"ConfigMap", "web"}, {"Secret", "web-tls"}, {"ConfigMap", "other namespace"},
	}
	for i, source := range sources {
		y := 44 + 60*float64(i)
		c.box(rect{16, y, 144, 50}, "box", source.name, source.line)
		c.line(160, y+25, 199, 109+16*float64(i), "arrow")
	}
	c.box(rect{200, 80, 104, 90}, "box", "API server", "with RBAC")
	c.fill(rect{352, 40, 434, 184}, "frame")
	c.line(304, 125, 364, 125, "arrow")
	c.box(rect{366, 80, 110, 90}, "ours", "driver", "one process", "of liveconfig")
	c.line(476, 125, 510, 125, "arrow")
	c.box(rect{512, 80, 110, 90}, "ours", "tmpfs", "all sources", "as files")
	for i, pod := range []string{"web-1", "web-2"} {
		y := 56 + 80*float64(i)
		c.line(622, 125, 660, y+30, "arrow")
		c.box(rect{662, y, 110, 60}, "box", "container", pod)
	}
	drawSteps(c)
	return c.picture("overview.svg", "What liveconfig is",
		"Sources, the API server, the driver of a node, a tmpfs, and the containers that read its files.")
}

// drawSteps explains the arrows.
func drawSteps(c *canvas) {
	for i, step := range []struct {
		x, y float64
		text string
	}{
		{180, 60, "You change an object. Nothing else is needed: no restart, no new pod."},
		{334, 106, "The driver watches it. The event arrives within milliseconds."},
		{493, 106, "It writes the new files beside the old ones, and one rename changes all together."},
		{641, 72, "Containers have the volume read-only. A failure leaves the last good files."},
	} {
		c.number(step.x, step.y, i+1)
		y := 250 + 24*float64(i)
		c.number(28, y, i+1)
		c.write(label{x: 48, y: y + 5, text: step.text})
	}
}
