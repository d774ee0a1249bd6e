package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

// setUp sends the process's log into a buffer until the test ends. The log is the process's one global: its tests are
// not parallel.
func setUp(t *testing.T, format string, verbosity int) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	if err := telemetry.SetUpLogging(&out, format, verbosity); err != nil {
		t.Fatalf("SetUpLogging(%s, %d) = %v, want nil", format, verbosity, err)
	}
	t.Cleanup(klog.ClearLogger)
	return &out
}

func TestVerbosityIsClamped(t *testing.T) {
	tests := map[string]struct {
		asked, got int
	}{
		"none":                   {asked: 0, got: 0},
		"some":                   {asked: 3, got: 3},
		"the most":               {asked: 5, got: 5},
		"requests with headers":  {asked: 6, got: 5},
		"whole response bodies":  {asked: 10, got: 5},
		"less than there is":     {asked: -1, got: 0},
		"more than a level fits": {asked: 1 << 40, got: 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := setUp(t, telemetry.FormatText, tt.asked)
			for level := range 11 {
				want := level <= tt.got
				if got := klog.Background().V(level).Enabled(); got != want {
					t.Errorf("loggers log at %d = %t, want %t", level, got, want)
				}
				klog.Background().V(level).Info("by a logger")
				if got := logAsLibraries(level, "by klog"); got != want {
					t.Errorf("klog logs at %d = %t, want %t", level, got, want)
				}
			}
			for _, text := range []string{"by a logger", "by klog"} {
				if got, want := strings.Count(out.String(), text), tt.got+1; got != want {
					t.Errorf("%d lines %s, want %d", got, text, want)
				}
			}
		})
	}
}

// logAsLibraries logs like those that know nothing of loggers in contexts, and reports whether it did.
func logAsLibraries(level int, text string) bool {
	v := klog.V(klog.Level(level)) //nolint:forbidigo // What the rule is against, to see what comes of it.
	v.InfoS(text)                  //nolint:forbidigo // The same.
	return v.Enabled()             //nolint:forbidigo // The same.
}

// TestJSONLines checks what a collector of logs needs: one object a line, levels by names it knows, keys and values.
func TestJSONLines(t *testing.T) {
	out := setUp(t, telemetry.FormatJSON, 5)
	logger := klog.Background()
	logger.Info("news", "volumeID", "csi-1", "line", "two\nlines")
	logger.V(2).Info("change")
	logger.V(4).Info("step")
	logger.V(5).Info("payload", "level", "mine")
	logger.Error(errors.New("no such thing"), "trouble")

	type line struct {
		Level, Msg, VolumeID, Err string
	}
	var got []line
	for text := range strings.Lines(out.String()) {
		var l line
		// The last level of a line is the caller's own.
		if err := json.Unmarshal([]byte(strings.Replace(text, `"level":"mine"`, `"other":"mine"`, 1)), &l); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		got = append(got, l)
	}
	want := []line{
		{Level: "INFO", Msg: "news", VolumeID: "csi-1"},
		{Level: "INFO", Msg: "change"},
		{Level: "DEBUG", Msg: "step"},
		{Level: "DEBUG", Msg: "payload"},
		{Level: "ERROR", Msg: "trouble", Err: "no such thing"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTextLines(t *testing.T) {
	out := setUp(t, telemetry.FormatText, 2)
	klog.Background().V(2).Info("A volume was published", "volumeID", "csi-1")
	got := strings.TrimSuffix(out.String(), "\n")
	if want := `level=INFO msg="A volume was published" volumeID=csi-1`; !strings.HasSuffix(got, want) {
		t.Errorf("line = %q, want it to end with %q", got, want)
	}
	if !strings.HasPrefix(got, "time=") {
		t.Errorf("line = %q, want it to start with the time", got)
	}
}

func TestUnknownFormat(t *testing.T) {
	before := setUp(t, telemetry.FormatText, 0)
	var out bytes.Buffer
	err := telemetry.SetUpLogging(&out, "yaml", 0)
	if err == nil {
		t.Fatal("SetUpLogging(yaml) = nil, want an error")
	}
	if got, want := err.Error(), `log format "yaml" is not one of text, json`; got != want {
		t.Errorf("SetUpLogging(yaml) = %q, want %q", got, want)
	}
	klog.Background().Info("still here")
	if out.Len() != 0 || !strings.Contains(before.String(), "still here") {
		t.Errorf("old log = %q, new log = %q, want the line in the old one", before, &out)
	}
}
