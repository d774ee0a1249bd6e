package pictures_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/docs/pictures"
)

const recording = `# A comment.
0.0 shell kubectl patch
20.5 liveconfig green
30.0 shell patched
43210.0 kubelet green
`

// TestFilmShowsTheRecording: the film has the texts and times of the recording.
func TestFilmShowsTheRecording(t *testing.T) {
	t.Parallel()
	drawn, err := pictures.All(readPage(t, "../performance.md"), recording)
	if err != nil {
		t.Fatal(err)
	}
	film := drawn[len(drawn)-1].SVG
	for _, want := range []string{">$ kubectl patch<", ">patched<", ">new after 21 ms<", ">new after 43.2 s<", ">43 s<", "3.0 times as fast"} {
		if !bytes.Contains(film, []byte(want)) {
			t.Errorf("the film does not have %s", want)
		}
	}
	if bytes.Contains(film, []byte(">44 s<")) {
		t.Error("the clock runs on when the edit has arrived")
	}
}

// TestRecordingsThatAreRefused: a recording that the film cannot show is an error that says why.
func TestRecordingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, changed, want string }{
		"no time":          {"20.5", "soon", `"soon liveconfig green"`},
		"no text":          {"liveconfig green", "liveconfig", `"20.5 liveconfig"`},
		"an unknown place": {"20.5 liveconfig", "20.5 elsewhere", "one elsewhere more"},
		"a line twice":     {"30.0 shell patched", "30.0 shell patched\n31.0 shell x", "one shell more"},
		"a line less":      {"43210.0 kubelet green\n", "", "too few lines of kubelet"},
		"a slow edit":      {"20.5 liveconfig", "1020.5 liveconfig", "after 1.0205s"},
		"a fast kubelet":   {"43210.0", "321.0", "after 321ms"},
	} {
		text := strings.Replace(recording, tt.old, tt.changed, 1)
		if _, err := pictures.All(readPage(t, "../performance.md"), text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q in it", name, err, tt.want)
		}
	}
}
