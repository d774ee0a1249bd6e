package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format returns a value as people read it: three digits that count, and a unit.
func (u Unit) Format(value float64) string {
	switch u {
	case Nanoseconds:
		return scaled(value, 1000, "ns", "µs", "ms", "s")
	case Bytes:
		return scaled(value, 1024, "B", "KiB", "MiB", "GiB")
	case Count:
	}
	return digits(value)
}

// scaled takes the largest unit in which the value is at least one.
func scaled(value, step float64, units ...string) string {
	i := 0
	for math.Abs(value) >= step && i < len(units)-1 {
		value /= step
		i++
	}
	return digits(value) + " " + units[i]
}

// digits has three digits that count, and all of a whole number before its point.
func digits(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value):
		return "–"
	case value == math.Trunc(value) || size >= 100:
		return strconv.FormatFloat(math.Round(value), 'f', -1, 64)
	case size >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strings.Replace(strconv.FormatFloat(value, 'f', 2, 64), "-0.00", "0.00", 1)
}

// times is a ratio as people read it.
func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return "–"
	}
	return fmt.Sprintf("%s ×", digits(ratio))
}
