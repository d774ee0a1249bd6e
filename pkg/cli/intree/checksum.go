package intree

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checksum is how Helm charts begin the names of annotations that restart pods when config changes.
const checksum = "checksum/"

// ChecksumNotes returns a note for each annotation of a pod template that restarts pods when config
// changes. A live volume needs no restart.
func ChecksumNotes(annotations map[string]string) []string {
	var notes []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, checksum) {
			notes = append(notes, fmt.Sprintf("the annotation %s restarts pods when the config changes: live volumes do not "+
				"need it, but env and envFrom do", key))
		}
	}
	return notes
}
