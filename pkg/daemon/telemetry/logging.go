// Package telemetry is how the driver is seen from outside: its log, its metrics and the Events it
// writes.
//
// It does not decide anything.
package telemetry

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"k8s.io/klog/v2"
)

// The log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// maxVerbosity is as talkative as the process gets whatever is asked for: from 6 on, client-go logs
// requests with their headers, and from 8 on whole response bodies, which hold Secrets.
const maxVerbosity = 5

// SetUpLogging makes klog, through which the driver and every library it uses log, write to out in
// the format with the verbosity. It must be called once, before anything logs.
func SetUpLogging(out io.Writer, format string, verbosity int) error {
	verbosity = max(0, min(verbosity, maxVerbosity))
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: nameLevel}
	var handler slog.Handler
	switch format {
	case FormatText:
		handler = slog.NewTextHandler(out, options)
	case FormatJSON:
		handler = slog.NewJSONHandler(out, options)
	default:
		return fmt.Errorf("log format %q is not one of %s, %s", format, FormatText, FormatJSON)
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("set the log's verbosity: %w", err)
	}
	klog.SetSlogLogger(slog.New(handler))
	return nil
}

// nameLevel calls the levels that klog has between slog's by slog's names: 1 to 3 are info, more is
// debug.
func nameLevel(groups []string, a slog.Attr) slog.Attr {
	level, ok := a.Value.Any().(slog.Level)
	switch {
	case len(groups) > 0 || a.Key != slog.LevelKey || !ok:
		return a
	case level <= slog.LevelDebug:
		return slog.Any(a.Key, slog.LevelDebug)
	case level < slog.LevelInfo:
		return slog.Any(a.Key, slog.LevelInfo)
	}
	return a
}
