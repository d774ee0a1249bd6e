package sidecars

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// program stands for the one that uses the files: it reads them when a request asks it to.
type program struct {
	server *http.Server
	url    string
	file   string

	mu   sync.Mutex // Guards the fields below.
	want int        // The version that is waited for.
	seen chan<- time.Time
}

// startProgram serves on loopback until it is closed.
func startProgram(ctx context.Context, dir string) (*program, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &program{file: filepath.Join(dir, editedKey), url: "http://" + listener.Addr().String() + "/-/reload"}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: patience}
	go func() { _ = p.server.Serve(listener) }() // It ends when the server is closed.
	return p, nil
}

func (p *program) close() error { return p.server.Close() }

// expect returns a channel that gets, once, the moment at which the program has read a version, or a later one.
func (p *program) expect(version int) <-chan time.Time {
	seen := make(chan time.Time, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want, p.seen = version, seen
	return seen
}

// ServeHTTP is the request to read the files.
func (p *program) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	version, err := p.read()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen != nil && version >= p.want {
		p.seen <- time.Now()
		p.seen = nil
	}
}

func (p *program) read() (int, error) {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return 0, err
	}
	if len(text) != objectBytes {
		return 0, fmt.Errorf("%s has %d bytes, want %d", p.file, len(text), objectBytes)
	}
	return strconv.Atoi(string(text[:versionDigits]))
}

// await waits until a program has read what it was to read.
func await(ctx context.Context, seen <-chan time.Time, within time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("no request has come"))
	defer cancel()
	select {
	case at := <-seen:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}
