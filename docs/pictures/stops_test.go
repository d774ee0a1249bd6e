package pictures

import (
	"os"
	"strings"
	"testing"
)

// TestStopsAreThoseOfWhy: each place of the picture is a line that `kubectl liveconfig why` prints, in the same order.
func TestStopsAreThoseOfWhy(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := strings.Cut(string(page), "$ kubectl liveconfig why ")
	printed, _, _ = strings.Cut(printed, "```")
	for _, stop := range stops() {
		if stop.why == "" {
			continue
		}
		_, after, found := strings.Cut(printed, " "+stop.why+"  ")
		if !found {
			t.Errorf("after the place before it, `why` prints no line about %q, which the picture calls %s", stop.why, stop.name)
			continue
		}
		printed = after
	}
}
