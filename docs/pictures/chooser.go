package pictures

// choice is what a program does, and the part of liveconfig that serves it.
type choice struct{ program, how, part, does string }

func choices() []choice {
	return []choice{
		{"reads its files again", "at each use, or when they change", "live volume", "its files change; nothing else to do"},
		{"must be told", "by a signal, a request or a command", "liveconfig-reload", "has it read them, and checks that it works"},
		{"only reads at start", "and has to start again", "rollout", "each change is a revision that you can undo"},
		{"has variables", "in its environment", "liveconfig-exec", "restarts it in its container, with new ones"},
		{"can break by an edit", "so not all pods at once", "release", "few pods first; taken back if one fails"},
	}
}

// drawChooser shows which part serves which program.
func drawChooser() Picture {
	const row = 62.0
	all := choices()
	c := newCanvas(48 + row*float64(len(all)))
	c.write(label{x: 16, y: 28, class: "soft", text: "My program"})
	c.write(label{x: 400, y: 28, class: "soft", text: "so I use"})
	for i, choice := range all {
		y := 42 + row*float64(i)
		c.box(rect{16, y, 310, 50}, "box", choice.program, choice.how)
		c.line(326, y+25, 398, y+25, "arrow")
		c.box(rect{400, y, 384, 50}, "ours", choice.part, choice.does)
	}
	return c.picture("chooser.svg", "Which part of liveconfig a program needs",
		"Five kinds of programs, and for each the part that serves it. A release goes with every one of them.")
}
