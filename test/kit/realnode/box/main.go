// Box is the program in the images of tests: what a shell cannot do, or not fast enough.
//
//	box pause            does nothing until it is asked to end
//	box watch FILE...    prints each content of the files that it sees: the time in nanoseconds, the file and the content
//	box hold FILE...     prints that it has begun, and then what goes wrong when it reads the files again and again
//	box serve FILE [ADDRESS]
//	                     answers on 127.0.0.1:8080 with the content that it has read, reads the file again when it is asked
//	                     to (POST), and refuses one that begins with «bad», or has an interval that is no time; /metrics
//	                     says whether it did, as Prometheus does
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookInterval is how late a change is seen at most. It is short next to everything that is measured.
	lookInterval = 200 * time.Microsecond
	// holdInterval is shorter than a file could be away for, if one ever were.
	holdInterval = time.Millisecond
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "box:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	switch {
	case len(args) == 1 && args[0] == "pause":
		<-ctx.Done()
		return nil
	case len(args) > 1 && args[0] == "watch":
		return watch(ctx, out, args[1:])
	case len(args) > 1 && args[0] == "hold":
		return hold(ctx, out, args[1:])
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1], "127.0.0.1:8080")
	case len(args) == 3 && args[0] == "serve":
		return serve(ctx, args[1], args[2])
	}
	return errors.New("usage: box pause, box watch FILE, box hold FILE or box serve FILE [ADDRESS]")
}

// served is a file as a program has read it.
type served struct {
	file string

	mu       sync.Mutex // Guards the others.
	now      []byte
	isBroken bool // The file was refused when it was read last.
}

// interval is a setting that must be a time.
var interval = regexp.MustCompile(`(?m)_interval: *(\S+)`)

// load reads the file again. One that is refused changes nothing.
func (s *served) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := os.ReadFile(s.file)
	if bytes.HasPrefix(next, []byte("bad")) {
		err = errors.New("refused")
	}
	for _, found := range interval.FindAllSubmatch(next, -1) {
		if _, unread := time.ParseDuration(string(found[1])); unread != nil {
			err = unread
		}
	}
	if s.isBroken = err != nil; err == nil {
		s.now = next
	}
	return err
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		if err := s.load(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/metrics" {
		_, _ = fmt.Fprintln(w, "prometheus_config_last_reload_successful", map[bool]int{false: 1, true: 0}[s.isBroken])
		return
	}
	_, _ = w.Write(s.now)
}

// serve is a program that has to be asked to read its file.
func serve(ctx context.Context, file, address string) error {
	content := &served{file: file}
	if err := content.load(); err != nil {
		return err
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Second, Handler: content}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// watch reads files again and again: that is how a program sees them, and it costs the same whatever made the change.
func watch(ctx context.Context, out io.Writer, files []string) error {
	seen := make([]string, len(files))
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		for i, file := range files {
			data, err := os.ReadFile(file)
			if err != nil || string(data) == seen[i] {
				continue
			}
			seen[i] = string(data)
			if _, err := fmt.Fprintf(out, "%d %s %q\n", time.Now().UnixNano(), file, data); err != nil {
				return err
			}
		}
		<-ticker.C
	}
	return nil
}

// hold expects that each file can be read at any time and is never empty.
func hold(ctx context.Context, out io.Writer, files []string) error {
	if _, err := fmt.Fprintln(out, "holding"); err != nil {
		return err
	}
	ticker := time.NewTicker(holdInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			if readErr == nil && len(data) > 0 {
				continue
			}
			now := time.Now().Format(time.RFC3339Nano)
			if _, err := fmt.Fprintf(out, "lost: %s: %s has %d bytes: %v\n", now, file, len(data), readErr); err != nil {
				return err
			}
		}
		<-ticker.C
	}
	return nil
}
