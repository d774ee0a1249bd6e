package reload

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Handler answers /healthz, /readyz, /metrics and /statusz. status returns how far the reloader has
// come.
func Handler(status func() Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // The client may have gone.
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if now := status(); now.Failure != "" {
			http.Error(w, now.Failure, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, status())
	})
	mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status())
	})
	return mux
}

// writeMetrics writes metrics in the text format of Prometheus. They are few and of one form, and
// the client library would take more memory than the rest of the program.
func writeMetrics(w io.Writer, s Status) {
	metric := func(name, kind, help string, value float64) {
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %g\n", name, help, name, kind, name, value)
	}
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixNano()) / float64(time.Second)
	}
	isOne := map[bool]float64{true: 1}
	metric("liveconfig_reload_successes_total", "counter",
		"Changes of the files with which the program was seen to work.", float64(s.Successes))
	metric("liveconfig_reload_failures_total", "counter",
		"Times at which the program could not be made to work with the files, or these could not be read.",
		float64(s.Failures))
	metric("liveconfig_reload_failing", "gauge", "1 while the program does not work with the newest files.",
		isOne[s.Failure != ""])
	metric("liveconfig_reload_pending", "gauge",
		"1 while it is not known whether the program works with the newest files.", isOne[s.IsPending()])
	metric("liveconfig_reload_last_success_timestamp_seconds", "gauge", "When a reload last succeeded; 0 for never.",
		since(s.LastSuccess))
	metric("liveconfig_reload_duration_seconds", "gauge",
		"How long the last reload that succeeded took, with its retries.", s.Took.Seconds())
}

// WriteReport writes a status as JSON, so that a reader finds the old one or the new one.
func WriteReport(path string, s Status) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	const everybody = 0o644 // There is nothing secret in it.
	_, err = file.Write(append(text, '\n'))
	if err == nil {
		err = file.Chmod(everybody)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // The first error is the reason.
	}
	return err
}
