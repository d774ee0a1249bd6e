package pictures

// stop is a place where an edit can stop: its name, the line of `kubectl liveconfig why` about it, and how it shows.
type stop struct {
	name, why string
	shows     []string
}

func stops() []stop {
	return []stop{
		{"source", "edit", []string{"another", "object or", "namespace"}},
		{"watch", "watch of the node", []string{"no event", "reaches", "the node"}},
		{"access", "rights", []string{"a Role is", "missing or", "revoked"}},
		{"release", "release", []string{"refused,", "or only", "few pods"}},
		{"budget", "room", []string{"the node's", "memory", "is full"}},
		{"write", "files", []string{"a key is", "missing, or", "an error"}},
		{"mount", "mount", []string{"subPath", "shows the", "old file"}},
		{"program", "", []string{"has not", "read the", "file again"}},
	}
}

// drawStops shows the places in the order in which an edit passes them.
func drawStops() Picture {
	const width, gap = 86.0, 11.5
	c := newCanvas(230)
	c.write(label{x: 16, y: 28, class: "soft", text: "Where an edit can stop, and how that shows"})
	for i, stop := range stops() {
		x := 16 + (width+gap)*float64(i)
		class := "ours"
		if i == 0 || stop.why == "" {
			class = "box"
		}
		c.box(rect{x, 44, width, 40}, class, stop.name)
		for j, line := range stop.shows {
			c.write(label{x: x + width/2, y: 104 + 18*float64(j), class: "soft", anchor: "middle", text: line})
		}
		if i > 0 {
			c.line(x-gap, 64, x-1, 64, "arrow")
		}
	}
	command := rect{16, 166, 290, 48}
	c.fill(command, "ours")
	c.writeInside(command, label{x: 30, y: 195, class: "mono", text: "kubectl liveconfig why pod/NAME"})
	c.write(label{x: 322, y: 195, text: "prints the place where it stopped, and what to type"})
	return c.picture("stops.svg", "Where an edit can stop",
		"Source, watch, access, release, budget, write, mount and program. One command prints the place where an edit stopped.")
}
