// Package pictures draws the pictures of the pages as SVG: without scripts, with text as text, for light and dark screens.
//
// `make docs` writes them beside this file. The package does not know which page shows a picture.
package pictures

// Picture is a drawn one.
type Picture struct {
	// File is its name in this folder.
	File string
	// SVG is its content.
	SVG []byte
	// Escaped are the texts that leave the place that they should be in.
	Escaped []string
}

// All draws every picture. The figures of the latency, and of the comparison with sidecars, are
// those of the page on performance; the film of an edit shows a recording.
func All(performance, recording string) ([]Picture, error) {
	latency, err := drawLatency(performance)
	if err != nil {
		return nil, err
	}
	sidecars, err := drawSidecars(performance)
	if err != nil {
		return nil, err
	}
	terminal, err := drawTerminal(recording)
	if err != nil {
		return nil, err
	}
	return []Picture{drawOverview(), drawRelease(), drawChooser(), latency, sidecars, drawStops(), terminal}, nil
}

// picture ends a drawing.
func (c *canvas) picture(file, title, description string) Picture {
	return Picture{File: file, SVG: c.svg(title, description), Escaped: c.escaped}
}
