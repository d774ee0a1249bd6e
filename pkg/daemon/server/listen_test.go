package server_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	const example = "; write it as unix:///run/example/csi.sock"
	longest := "/" + strings.Repeat("p", 106)
	tests := map[string]struct{ in, want, wantErr string }{
		"a URL":                        {in: "unix:///run/csi.sock", want: "/run/csi.sock"},
		"a URL without authority":      {in: "unix:/run/csi.sock", want: "/run/csi.sock"},
		"a plain path":                 {in: "/run/csi.sock", want: "/run/csi.sock"},
		"an unclean path is cleaned":   {in: "unix:///run/x/..//csi.sock", want: "/run/csi.sock"},
		"the longest path":             {in: "unix://" + longest, want: longest},
		"a longer path":                {in: "unix://" + longest + "p", wantErr: "the path of a unix socket has at most 107 bytes, " + longest + "p has 108"},
		"nothing":                      {in: "", wantErr: `endpoint "" is not a unix socket URL` + example},
		"a scheme alone":               {in: "unix://", wantErr: `endpoint "unix://" is not a unix socket URL` + example},
		"a URL without a path":         {in: "unix:///", wantErr: `endpoint "unix:///" is not a unix socket URL` + example},
		"two slashes make a host name": {in: "unix://run/csi.sock", wantErr: `endpoint "unix://run/csi.sock" is not a unix socket URL` + example},
		"a relative path":              {in: "csi.sock", wantErr: `endpoint "csi.sock" is not a unix socket URL` + example},
		"another scheme":               {in: "tcp://127.0.0.1:80", wantErr: `endpoint "tcp://127.0.0.1:80" is not a unix socket URL` + example},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := server.ParseEndpoint(tc.in)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("ParseEndpoint(%q) = %q, %v, want the error %s", tc.in, got, err, tc.wantErr)
				}
				return
			}
			if got != tc.want || err != nil {
				t.Errorf("ParseEndpoint(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
		})
	}
}

// TestListenReplacesWhatAKilledProcessLeft is fault 22.
func TestListenReplacesWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "csi.sock")
	killed, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	expect.NoError(t, err)
	stale, ok := killed.(*net.UnixListener)
	if !ok {
		t.Fatalf("a unix listener is a %T", killed)
	}
	stale.SetUnlinkOnClose(false)
	expect.NoError(t, stale.Close())
	l, err := server.Listen(t.Context(), path)
	if err != nil {
		t.Fatalf("Listen over a stale socket: %v", err)
	}
	defer l.Close()
	connect(t, path)
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	expect.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	link := filepath.Join(dir, "link")
	expect.NoError(t, os.Symlink(file, link))
	sub := filepath.Join(dir, "sub")
	expect.NoError(t, os.Mkdir(sub, 0o700))
	long := filepath.Join(dir, strings.Repeat("s", 100))
	tests := map[string]struct{ path, want string }{
		"a file":              {file, "there is a file that is not a socket (-rw-------); remove it or choose another endpoint"},
		"a symlink":           {link, "there is a file that is not a socket (L"},
		"a directory":         {sub, "there is a file that is not a socket (d"},
		"a missing directory": {filepath.Join(dir, "none", "csi.sock"), "no such file or directory"},
		"a file for a parent": {filepath.Join(file, "csi.sock"), "not a directory"},
		"a path too long":     {long, "the path of a unix socket has at most 107 bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := server.Listen(t.Context(), tc.path)
			if err == nil {
				_ = l.Close()
				t.Fatal("Listen = nil error, want one")
			}
			if !strings.HasPrefix(err.Error(), "listen on "+tc.path+": ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Listen(%s) = %q, want it to begin with what was done and to say %q", tc.path, err, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if got, err := os.ReadFile(file); string(got) != "precious" || err != nil {
			t.Errorf("the refused file = %q, %v, want it untouched", got, err)
		}
	})
}

func TestListenWithAContextThatIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "csi.sock")
	l, err := server.Listen(ctx, path)
	if err == nil {
		_ = l.Close() // Listening does not block, so that it may succeed all the same.
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("Listen = %v, want %v", err, context.Canceled)
	}
	if exists(t, path) {
		t.Errorf("%s is there after the listener was closed", path)
	}
}

// TestCloseRemovesTheSocketOnce, to which only the owner can connect.
func TestCloseRemovesTheSocketOnce(t *testing.T) {
	t.Parallel()
	l, path := listen(t)
	if got, want := modeOf(t, path), fs.ModeSocket|0o600; got != want {
		t.Errorf("mode of the socket = %s, want %s", got, want)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if exists(t, path) {
		t.Errorf("%s is there after Close", path)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close = %v, want %v", err, net.ErrClosed)
	}
}

// TestASecondListenerTakesOver is fault 22.
func TestASecondListenerTakesOver(t *testing.T) {
	t.Parallel()
	older, path := listen(t)
	newer, err := server.Listen(t.Context(), path)
	if err != nil {
		t.Fatalf("Listen while another listens: %v", err)
	}
	defer newer.Close()
	if err := older.Close(); err != nil {
		t.Errorf("Close of the older listener = %v", err)
	}
	if !exists(t, path) {
		t.Fatal("the older listener took the newer one's socket away")
	}
	connect(t, path)
}

// connect fails the test unless somebody listens at path.
func connect(t *testing.T, path string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	_ = conn.Close()
}
