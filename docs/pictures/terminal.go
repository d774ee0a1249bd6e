package pictures

import (
	"fmt"
	"strings"
	"time"
)

// The parts of the film: the edit comes after lead, one second of the recording is shown as it was, the rest is over at
// rest, and then the last picture stays.
const (
	film = 20 * time.Second
	lead = 2 * time.Second
	rest = 17 * time.Second
)

// filmed is a canvas with a clock.
type filmed struct {
	*canvas
	end    time.Duration // The last moment of the recording.
	frames strings.Builder
	count  int
}

// speed returns how many times as fast as it was the wait is shown.
func (f *filmed) speed() float64 {
	return (f.end - time.Second).Seconds() / (rest - lead - time.Second).Seconds()
}

// part returns the place of a moment of the recording in the film, in percent.
func (f *filmed) part(at time.Duration) float64 {
	shown := lead + at
	if at > time.Second {
		shown = lead + time.Second + time.Duration((at-time.Second).Seconds()/f.speed()*float64(time.Second))
	}
	return 100 * shown.Seconds() / film.Seconds()
}

// from shows what is drawn from a moment to the end. Without motion it is there.
func (f *filmed) from(at time.Duration, draw func()) {
	f.move(fmt.Sprintf("0%%{opacity:0}%.2f%%{opacity:1}100%%{opacity:1}", f.part(at)), "step-end", "", draw)
}

// between shows what is drawn from one moment to another. Without motion it is not there.
func (f *filmed) between(begin, end time.Duration, draw func()) {
	first := "0%{opacity:0}"
	if begin < 0 {
		first, begin = "", -lead
	}
	frames := fmt.Sprintf("%s%.2f%%{opacity:1}%.2f%%{opacity:0}100%%{opacity:0}", first, f.part(begin), f.part(end))
	f.move(frames, "step-end", "opacity:0;", draw)
}

// grow draws something that grows from its left side, from the edit to a moment.
func (f *filmed) grow(x float64, until time.Duration, draw func()) {
	frames := fmt.Sprintf("0%%,%.2f%%{transform:scaleX(0)}", f.part(0))
	if until > time.Second {
		frames += fmt.Sprintf("%.2f%%{transform:scaleX(%.4f)}", f.part(time.Second), time.Second.Seconds()/until.Seconds())
	}
	frames += fmt.Sprintf("%.2f%%,100%%{transform:scaleX(1)}", f.part(until))
	f.move(frames, "linear", fmt.Sprintf("transform-origin:%spx 0;", pixels(x)), draw)
}

func (f *filmed) move(frames, timing, style string, draw func()) {
	f.count++
	fmt.Fprintf(&f.frames, "@keyframes m%d{%s}\n", f.count, frames)
	fmt.Fprintf(&f.shapes, "<g style=\"%sanimation:m%d %gs %s infinite\">\n", style, f.count, film.Seconds(), timing)
	draw()
	f.shapes.WriteString("</g>\n")
}

// drawTerminal shows a recorded edit with two volumes of one container, and the time.
func drawTerminal(recording string) (Picture, error) {
	r, err := readRecording(recording)
	if err != nil {
		return Picture{}, err
	}
	f := &filmed{canvas: newCanvas(328), end: r.kubelet.at}
	f.drawShell(r)
	f.drawVolume(rect{16, 116, 376, 96}, "ours", "liveconfig", r.live)
	f.drawVolume(rect{408, 116, 376, 96}, "box", "configMap volume of the kubelet", r.kubelet)
	f.drawClock(r)
	f.motion = f.frames.String()
	return f.picture("terminal.svg", "An edit, and two volumes of the same pod",
		fmt.Sprintf("After kubectl patch, the file of liveconfig's volume is new after %s, and the file of the kubelet's volume after %s.",
			took(r.live.at), took(r.kubelet.at))), nil
}

func (f *filmed) drawShell(r recorded) {
	frame := rect{16, 16, 768, 84}
	f.fill(frame, "box")
	f.writeInside(frame, label{x: 32, y: 48, class: "mono", text: "$ " + r.command.text})
	f.from(r.answer.at, func() {
		f.writeInside(frame, label{x: 32, y: 78, class: "mono", text: r.answer.text})
	})
}

// drawVolume shows the content of a volume's file, before the edit and after it.
func (f *filmed) drawVolume(frame rect, class, name string, m moment) {
	f.fill(frame, class)
	f.writeInside(frame, label{x: frame.x + 16, y: frame.y + 28, class: "name", text: name})
	content := label{x: frame.x + 16, y: frame.y + 58, class: "mono", text: "color: blue"}
	f.between(-1, m.at, func() { f.writeInside(frame, content) })
	f.from(m.at, func() {
		content.text = "color: " + m.text
		f.writeInside(frame, content)
		f.writeInside(frame, label{x: frame.x + 16, y: frame.y + 82, class: "soft", text: "new after " + took(m.at)})
	})
}

// drawClock shows the time since the edit, and a bar of it for each volume.
func (f *filmed) drawClock(r recorded) {
	const left, width = 112.0, 560.0
	for i, bar := range []struct {
		name, class string
		at          time.Duration
	}{{"liveconfig", "ourBar", r.live.at}, {"kubelet", "slowBar", r.kubelet.at}} {
		y := 232 + 30*float64(i)
		f.write(label{x: 16, y: y + 14, text: bar.name})
		f.grow(left, bar.at, func() {
			f.fill(rect{left, y, max(3, width*bar.at.Seconds()/f.end.Seconds()), 18}, bar.class)
		})
	}
	clock := label{x: 784, y: 277, class: "name", anchor: "end"}
	for second := time.Duration(0); second < f.end; second += time.Second {
		f.between(second, min(second+time.Second, f.end), func() {
			clock.text = fmt.Sprintf("%g s", second.Seconds())
			f.write(clock)
		})
	}
	f.from(r.kubelet.at, func() {
		clock.text = took(r.kubelet.at)
		f.write(clock)
	})
	f.from(r.live.at, func() { f.write(label{x: 784, y: 247, class: "name", anchor: "end", text: took(r.live.at)}) })
	f.write(label{x: 16, y: 310, class: "soft", text: fmt.Sprintf(
		"Recorded on a real node, with kubectl's own time. From 1 s on the clock runs %.1f times as fast.", f.speed())})
}

// took writes a time for people.
func took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
