package api

import "strings"

// Closest returns the known name that a misspelled one was probably meant to be, or "" when none is
// near.
func Closest(name string, known []string) string { return closest(name, known) }

// closest returns the known name that a misspelled one was probably meant to be, or "" when none is
// near. Case never counts, and a name that holds a known one whole (secretName, name) is near it.
func closest(name string, known []string) string {
	if len(name) > maxShown {
		return ""
	}
	name = strings.ToLower(name)
	best, bestDistance := "", len(name)
	for _, candidate := range known {
		lower := strings.ToLower(candidate)
		d := distance(name, lower)
		near := d <= max(1, len(lower)/3) || len(lower) > 3 && strings.Contains(name, lower)
		if near && d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or change to turn one text into the other.
func distance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			changed := diagonal
			if from[i] != to[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, diagonal+1, row[j]+1)
		}
	}
	return row[len(to)]
}
