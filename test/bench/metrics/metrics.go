// Package metrics reads what programs serve for Prometheus.
//
// It does not know the programs.
package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNone is wrapped when there is no such series.
var ErrNone = errors.New("there is no metric")

// Sum adds all series of a name that have the labels, each in the way that the text has it: name="value".
func Sum(text, name string, labels ...string) (float64, error) {
	total, found := 0.0, false
	for l := range strings.Lines(text) {
		series, number, _ := strings.Cut(strings.TrimSpace(l), " ")
		if series != name && !strings.HasPrefix(series, name+"{") ||
			slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, fmt.Errorf("the metrics have the line %q: %w", l, err)
		}
		total, found = total+value, true
	}
	if !found {
		return 0, fmt.Errorf("%w %s with %v", ErrNone, name, labels)
	}
	return total, nil
}
