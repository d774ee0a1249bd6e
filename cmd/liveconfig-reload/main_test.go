package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
)

const secret = "hunter2"

// app is a program that reads the files of a volume when it is asked to, and refuses some.
type app struct {
	volume volumes.Volume
	loaded atomic.Value
}

func (p *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = fmt.Fprintf(w, "loaded %s\n", p.loaded.Load())
		return
	}
	data, err := os.ReadFile(filepath.Join(p.volume.Path, "app.conf"))
	if err != nil || strings.Contains(string(data), "bad") {
		http.Error(w, "cannot read "+secret, http.StatusBadRequest)
		return
	}
	p.loaded.Store(string(data))
}

// running is liveconfig-reload in this process.
type running struct {
	t      *testing.T
	base   string // Where it answers.
	report string
	stop   func() int
	mu     sync.Mutex // Guards log.
	log    bytes.Buffer
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, base: "http://" + address, report: filepath.Join(t.TempDir(), "report")}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	args = append([]string{"--listen", address, "--report-file", r.report, "--settle=10ms", "--retries=0"}, args...)
	go func() { code <- run(ctx, args, io.Discard, r) }()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { r.stop() })
	r.eventually("/healthz", "200 ok")
	return r
}

// ask returns status and text of an answer.
func (r *running) ask(path string) string {
	answer, err := http.Get(r.base + path) //nolint:noctx // It is on this machine.
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, body)
}

func (r *running) eventually(path, want string) {
	r.t.Helper()
	expect.Eventually(r.t, 20*time.Second, func() error {
		if got := r.ask(path); !strings.Contains(got, want) {
			return fmt.Errorf("%s answers %q, want %q", path, got, want)
		}
		return nil
	})
}

// TestEdits of a volume reach the program; one that it refuses is reported until it is mended, and nothing shows what files have.
func TestEdits(t *testing.T) {
	t.Parallel()
	for name, writer := range volumes.Layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &app{volume: volumes.New(t, writer)}
			p.loaded.Store("start")
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			write := func(text string) {
				t.Helper()
				if err := p.volume.Write(map[string]string{"app.conf": text, "other": secret}); err != nil {
					t.Fatal(err)
				}
			}
			write("one")
			r := start(t, "--watch", p.volume.Path, "--http", "POST", server.URL+"/reload", "--verify="+server.URL, "--verify-contains", "loaded", "--verify-lacks", "bad")
			r.eventually("/statusz", `"loaded":1`)
			write("two")
			r.eventually("/statusz", `"loaded":2`)
			if got := p.loaded.Load(); got != "two" {
				t.Errorf("the program has read %q", got)
			}
			write("bad")
			r.eventually("/readyz", "503 POST "+server.URL+"/reload: the answer is 400 Bad Request")
			r.eventually("/metrics", "liveconfig_reload_failing 1")
			if got := p.loaded.Load(); got != "two" {
				t.Errorf("the program has read %q", got)
			}
			write("three")
			r.eventually("/readyz", "200 ok")
			r.eventually("/statusz", `"loaded":4`)
			var s reload.Status
			for end := time.Now().Add(10 * time.Second); s.Loaded != 4 && time.Now().Before(end); <-time.After(5 * time.Millisecond) {
				data, err := os.ReadFile(r.report)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(data, &s); err != nil {
					t.Fatalf("the report is %q: %v", data, err)
				}
			}
			// The content that was refused is tried again, and the program may have the next one by then.
			if s.Loaded != 4 || s.Successes < 2 || s.Successes > 3 || s.Failures < 1 {
				t.Errorf("the report has %+v", s)
			}
			shown := r.ask("/statusz") + r.ask("/metrics")
			if code := r.stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			if shown += r.log.String(); strings.Contains(shown, secret) || strings.Contains(shown, "app.conf") {
				t.Errorf("it shows what files have:\n%s", shown)
			}
			if got := strings.Count(r.log.String(), "\n"); got != s.Successes+2 {
				t.Errorf("%d lines in the log, want one for each outcome:\n%s", got, r.log.String())
			}
		})
	}
}

// TestACommand is run for each change.
func TestACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := filepath.Join(t.TempDir(), "count")
	r := start(t, "--watch", dir, "--at-start", "--command", "sh", "-c", "echo x >> "+count)
	r.eventually("/statusz", `"successes":1`)
	whole := filepath.Join(t.TempDir(), "a") // An empty file that is then filled would be two changes.
	expect.NoError(t, os.WriteFile(whole, []byte("1"), 0o600))
	expect.NoError(t, os.Rename(whole, filepath.Join(dir, "a")))
	r.eventually("/statusz", `"successes":2`)
	if data, err := os.ReadFile(count); string(data) != "x\nx\n" {
		t.Errorf("the command has written %q, %v", data, err)
	}
}

// TestItEndsAtOnce, whatever it waits for.
func TestItEndsAtOnce(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	t.Cleanup(func() {
		close(ended)
		hangs.Close()
	})
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"a request": {"--http", "POST", hangs.URL}, "a command": {"--command", "sh", "-c", "sleep 1000; true"},
		"a program that is not up": {"--http", "POST", "http://127.0.0.1:1"}, "a pid file": {"--signal=HUP", "--pid-file=/nowhere"},
		"a retry": {"--initial-wait=0", "--command", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--watch", dir, "--at-start", "--timeout=1h", "--initial-wait=1h"}, args...)...)
			r.eventually("/statusz", `"content":1`)
			begin := time.Now()
			if code, took := r.stop(), time.Since(begin); code != exitOK || took > 10*time.Second {
				t.Errorf("exit code %d after %s, want %d at once", code, took, exitOK)
			}
		})
	}
}

// TestMistakes of the command line are all reported, and nothing begins.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                               "one of --http METHOD URL, --signal SIGNAL and --command COMMAND",
		"--watch a":                      "one of --http METHOD URL",
		"--http POST http://x":           "--watch: name the directory",
		"--watch a --http POST":          "--http: want --http METHOD URL",
		"--watch a --http http://x POST": "the method comes first",
		"--watch a --http POST ftp://x":  "must begin with http://",
		"--watch a --http POST http://x --signal HUP":        "one of --http METHOD URL",
		"--watch a --signal HUP":                             "one of --process NAME and --pid-file FILE",
		"--watch a --signal HUP --process x --pid-file y":    "one of --process NAME and --pid-file FILE",
		"--watch a --signal HOP --process x":                 "must be a signal",
		"--watch a --command":                                "there is no command after it",
		"--watch a --http POST http://x --process y":         "go with --signal",
		"--watch a --signal HUP --process x --expect 200":    "--expect goes with --http",
		"--watch a --http POST http://x --expect 20-10":      "must be status codes",
		"--watch a --http POST http://x --verify-contains y": "go with --verify URL",
		"--watch a --http POST http://x --header y":          "must be 'NAME: VALUE'",
		"--watch a --http POST http://x --timeout 0s":        "must be a time from 1ms to 1h",
		"--watch a --http POST http://x --retries -1":        "must be a number from 0 to 100",
		"--watch a --http POST http://x --listen 9533":       "must be an address",
		"--watch a --http POST http://x --pause 1s":          "--pause: there is no such flag",
		"--watch a --http POST http://x y":                   `"y": there are flags only`,
		"--copy-to a --watch b":                              "--copy-to watches no files and does nothing else",
		"--copy-to a --command b":                            "--copy-to watches no files and does nothing else",
		"--copy-to=":                                         "must not be empty",
		"--copy-to /nowhere/at/all":                          "--copy-to /nowhere/at/all: there is no such directory",
	} {
		var out bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), io.Discard, &out); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("%q ends with %d: %s, want %q", args, code, out.String(), want)
		}
	}
	var out bytes.Buffer
	if run(t.Context(), strings.Fields("--timeout x --retries y"), io.Discard, &out); strings.Count(out.String(), "must be") != 2 {
		t.Errorf("of two mistakes it reports:\n%s", out.String())
	}
}

// TestCopy: the program goes to the container of another image, which has the command that it runs.
func TestCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	for range 2 { // One that is there is replaced.
		if code := run(t.Context(), []string{"--copy-to", dir}, io.Discard, &out); code != exitOK {
			t.Fatalf("it ends with %d: %s", code, out.String())
		}
	}
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "liveconfig-reload")
	copied, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(copied, own) {
		t.Errorf("the copy has %d bytes, %v, want the %d of this program", len(copied), err, len(own))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the copy is %v, %v", info, err)
	}
}

// TestSpellings of one thing.
func TestSpellings(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:9090/-/reload"
	for _, args := range [][]string{
		{"--http", "POST", url}, {"--http=POST", url}, {"--http", "POST " + url}, {"--http=POST " + url},
	} {
		o, err := parse(append([]string{"--watch=/a"}, args...))
		if err != nil || o.request.Method != http.MethodPost || o.request.URL != url {
			t.Errorf("%q = %+v, %v", args, o.request, err)
		}
	}
	for _, args := range [][]string{{"--command", "a", "--watch", "b"}, {"--command", "--", "a", "--watch", "b"}} {
		o, err := parse(append([]string{"--watch=/a"}, args...))
		if err != nil || strings.Join(o.command, " ") != "a --watch b" {
			t.Errorf("%q = %q, %v", args, o.command, err)
		}
	}
}

// TestPageOfFlags compares what --help prints about the flags with docs/flags.md, and with the flags that there are.
func TestPageOfFlags(t *testing.T) {
	var rows [][]string
	described := map[string]bool{}
	line := regexp.MustCompile(`^  (--([a-z-]+)(?: [^ ]+| '[^']*')*)  +(\S.*)$`)
	for text := range strings.Lines(usage) {
		if found := line.FindStringSubmatch(strings.TrimRight(text, "\n")); found != nil {
			rows = append(rows, []string{"`" + found[1] + "`", found[3]})
			described[found[2]] = true
		}
	}
	for name := range flags() {
		if !described[name] {
			t.Errorf("--help does not describe --%s", name)
		}
	}
	docs.Table{Page: "flags.md", Name: "liveconfig-reload", Columns: []string{"flag", "meaning"}, Rows: rows}.Compare(t)
}
