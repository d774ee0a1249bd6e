package pictures

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// moment is a text that appeared somewhere, and how long after the command.
type moment struct {
	at          time.Duration
	place, text string
}

// recorded is what a recording of one edit has: the command, its answer, and when each volume had the edit.
type recorded struct{ command, answer, live, kubelet moment }

// readRecording reads the lines of terminal.txt: milliseconds, a place and a text.
func readRecording(text string) (recorded, error) {
	var moments []moment
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		m, err := readMoment(strings.TrimSpace(line))
		if err != nil {
			return recorded{}, err
		}
		moments = append(moments, m)
	}
	var r recorded
	wanted := map[string][]*moment{
		"shell": {&r.command, &r.answer}, "liveconfig": {&r.live}, "kubelet": {&r.kubelet},
	}
	for _, m := range moments {
		if len(wanted[m.place]) == 0 {
			return recorded{}, fmt.Errorf("the recording has one %s more than a picture of one edit shows", m.place)
		}
		*wanted[m.place][0] = m
		wanted[m.place] = wanted[m.place][1:]
	}
	for place, rest := range wanted {
		if len(rest) > 0 {
			return recorded{}, fmt.Errorf("the recording has too few lines of %s", place)
		}
	}
	if r.kubelet.at <= time.Second || max(r.live.at, r.answer.at) >= time.Second {
		return recorded{}, fmt.Errorf("the picture shows one second in real time: the edit is in our volume after %s, and in the "+
			"kubelet's after %s; record again", r.live.at, r.kubelet.at)
	}
	return r, nil
}

func readMoment(line string) (moment, error) {
	parts := strings.SplitN(line, " ", 3)
	if len(parts) != 3 {
		return moment{}, fmt.Errorf("the recording has the line %q, want milliseconds, a place and a text", line)
	}
	ms, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || ms < 0 {
		return moment{}, fmt.Errorf("the recording has the line %q, want milliseconds first", line)
	}
	return moment{time.Duration(ms * float64(time.Millisecond)), parts[1], parts[2]}, nil
}
