package reload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const secret = "hunter2"

// serve returns the URL of a program.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// TestSend: the status decides, and nothing else of the answer is in the error.
func TestSend(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.Header.Get("Authorization") != "Bearer x" || r.Host != "admin" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		status := map[string]int{"/ok": 200, "/created": 201, "/moved": 302, "/refused": 500}[r.URL.Path]
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, secret)
	})
	header := http.Header{"Authorization": {"Bearer x"}, "Host": {"admin"}}
	for name, tt := range map[string]struct {
		path   string
		expect []Expect
		want   string
	}{
		"yes":               {"/ok", []Expect{{200, 299}}, ""},
		"yes of several":    {"/created", []Expect{{200, 200}, {201, 201}}, ""},
		"another yes":       {"/created", []Expect{{200, 200}}, "the answer is 201 Created"},
		"no":                {"/refused", []Expect{{200, 299}}, "the answer is 500 Internal Server Error"},
		"a redirect":        {"/moved", []Expect{{200, 299}}, "the answer is 302 Found"},
		"a redirect is yes": {"/moved", []Expect{{300, 399}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := NewWeb().Send(t.Context(), Request{Method: http.MethodPut, URL: url + tt.path, Header: header, Expect: tt.expect})
			if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret)) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAnswersThatAreNotHTTP: nothing of them is in the error.
func TestAnswersThatAreNotHTTP(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		secret + "\r\n\r\n":                         "the answer is not HTTP",
		"HTTP/1.1 " + secret + " OK\r\n\r\n":        "the answer is not HTTP",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n": "the answer is not HTTP",
		"": "the connection was closed before the answer ended",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + secret:                                                          "the connection was closed before the answer ended",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + secret + "\r\n\r\n":                     "the answer is not HTTP",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n" + secret + ": " + secret + "\r\n\r\n": "lacks",
	} {
		url := serveText(t, answer)
		err := NewWeb().verifyOnce(t.Context(), Verification{URL: url, Contains: []string{"version 2"}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: err = %v, want %q", answer, err, want)
		}
	}
}

// serveText returns the URL of a program that answers each connection with a text.
func serveText(t *testing.T, text string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // The test has ended.
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn)) // The client checks the answer.
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "http://" + listener.Addr().String()
}

// TestOnlyLoopback: a name or a redirect leads nowhere else, unless that is allowed.
func TestOnlyLoopback(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"http://192.0.2.1/": errRemote, "http://[2001:db8::1]/": errRemote, "http://[::ffff:192.0.2.1]/": errRemote, "http://0.0.0.0:1/": errRemote,
		"http://127.0.0.1:1/": ErrNotUp, "http://localhost:1/": ErrNotUp, "http://[::1]:1/": nil,
	} {
		err := NewWeb().Send(t.Context(), Request{Method: http.MethodGet, URL: url})
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && errors.Is(err, errRemote) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := NewRemoteWeb().Send(ctx, Request{Method: http.MethodGet, URL: "http://192.0.2.1/"}); err == nil || errors.Is(err, errRemote) {
		t.Errorf("allowed: %v, want that the connection is tried", err)
	}
}

// TestVerify asks until the answer is as it must be.
func TestVerify(t *testing.T) {
	t.Parallel()
	const metrics = "# HELP x y\nlast_ok{a=\"b\"} 1\nx  10\ntoken " + secret + "\n"
	for name, tt := range map[string]struct {
		answers  []string // One after the other; the last one stays.
		contains []string
		lacks    []string
		want     string
	}{
		"it answers":               {[]string{""}, nil, nil, ""},
		"later":                    {[]string{"old", "old", "new"}, []string{"new"}, []string{"old"}, ""},
		"never":                    {[]string{"old " + secret}, []string{"new"}, nil, `lacks "new"`},
		"what it must not have":    {[]string{"old new"}, []string{"new"}, []string{"old"}, `has "old"`},
		"a metric":                 {[]string{metrics}, []string{`last_ok{a="b"} 1`, "x 10"}, []string{"x 1", "last_ok 1"}, ""},
		"a metric of other values": {[]string{metrics}, []string{"x 1"}, nil, `lacks "x 1"`},
		"a status":                 {[]string{"500"}, nil, nil, "the answer is 500"},
		"too much":                 {[]string{strings.Repeat("x", mostAnswer+1)}, nil, nil, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				answer := tt.answers[min(int(asked.Add(1)), len(tt.answers))-1]
				if answer == "500" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(w, answer)
			})
			limit := 10 * time.Second
			if tt.want != "" {
				limit = 2 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := NewWeb().Verify(ctx, Verification{URL: url, Contains: tt.contains, Lacks: tt.lacks})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || strings.Contains(err.Error(), secret)) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
			if tt.want != "" && !strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), "in time") {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}
