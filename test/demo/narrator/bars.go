package narrator

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Took is how long something took.
type Took struct {
	Name string
	Time time.Duration
}

// perMark is how long a mark of a bar stands for.
const perMark = 2 * time.Second

// Compare prints a bar for each time, and one for what the kubelet's own volume takes at least.
func (n Narrator) Compare(ours []Took, kubelet Took) {
	for _, t := range ours {
		n.Print("%-28s %10s  %s", t.Name, Milliseconds(t.Time), n.color("32", bar(t.Time)))
	}
	n.Print("%-28s %10s  %s", kubelet.Name, fmt.Sprintf("%.0f s", kubelet.Time.Seconds()), n.color("33", bar(kubelet.Time)))
	n.Print("%-28s %10s  each # is %.0f seconds, and | is less", "", "", perMark.Seconds())
}

// bar returns a mark for each two seconds.
func bar(took time.Duration) string {
	if took < perMark {
		return "|"
	}
	return strings.Repeat("#", int(took/perMark))
}

// color returns a text in a color of terminals, if the output is one.
func (n Narrator) color(code, text string) string {
	if !n.Colors {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// HasColors reports whether an output is a terminal whose user has not switched colors off (https://no-color.org).
func HasColors(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
