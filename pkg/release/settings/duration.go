package settings

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour
	// mostDays is more than any field takes, and less than a duration can hold.
	mostDays = 100_000
)

// parseDuration reads a duration as Go has them, before which days may be: 30d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	before, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.Atoi(before)
	if err != nil {
		return 0, err
	}
	days = min(max(days, -1), mostDays) // Neither of the two is in the limits of a field.
	if rest == "" {
		return time.Duration(days) * day, nil
	}
	more, err := time.ParseDuration(rest)
	if err == nil && (more < 0 || more > mostDays*day) {
		err = errors.New("what follows the days must be from 0s on")
	}
	return time.Duration(days)*day + more, err
}
