package manifestsource_test

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/userlimits"
)

// TestPolling runs tests of changes while others have used up what a user may have of inotify. This is fault 43.
func TestPolling(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	userlimits.Set(t, userlimits.InotifyInstances, 0)
	for name, test := range map[string]func(t *testing.T){
		"changes": TestChangesAreFollowed, "a file that is rewritten": rewriteThreeTimes,
		"the directory is swapped": TestTheDirectoryIsSwapped, "a link to it": TestALinkToTheDirectory, "links": TestLinksOfFiles,
	} {
		t.Run(name, test)
	}
}

func rewriteThreeTimes(t *testing.T) {
	t.Helper()
	t.Parallel()
	rewrite(t, 3)
}
