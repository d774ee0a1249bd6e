package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// log writes lines that name this program: the command writes to the same place.
type log struct {
	mu  sync.Mutex // One line at a time.
	out io.Writer
}

func newLog(out io.Writer) *log { return &log{out: out} }

// text writes one line or several.
func (l *log) text(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(text) {
		// There is no other place to report that to.
		_, _ = io.WriteString(l.out, program+": "+strings.TrimSuffix(line, "\n")+"\n")
	}
}

func (l *log) line(format string, args ...any) { l.text(fmt.Sprintf(format, args...)) }

// problem writes an error, each of several on a separate line.
func (l *log) problem(prefix string, err error) {
	for line := range strings.Lines(err.Error()) {
		l.text(prefix + line)
	}
}
