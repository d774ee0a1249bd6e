package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// sayTimeout is how long a driver may take to answer one HTTP request.
const sayTimeout = 10 * time.Second

// wantNoLeakFromProcess wants that a running driver reveals to nobody its content: not by its arguments, nor
// through its HTTP endpoint, if it serves one. Of one that has ended there is nothing to look at.
func wantNoLeakFromProcess(t testing.TB, n *node.Node) {
	t.Helper()
	said := map[string]string{}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.PID(), name))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
			return
		case err != nil:
			t.Errorf("look for leaks: %v", err)
			continue
		}
		if err := about("the driver's "+name, Leak(text)); err != nil {
			t.Error(err)
		}
		said[name] = string(text)
	}
	address := httpEndpoint(said["cmdline"])
	if address == "" {
		return
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/statusz"} {
		if err := about(path, saysNoSecret(t, "http://"+address+path)); err != nil {
			t.Error(err)
		}
	}
}

// httpEndpoint returns where the driver serves HTTP by its command line; nothing if it does not.
func httpEndpoint(cmdline string) (address string) {
	for arg := range strings.SplitSeq(cmdline, "\x00") {
		if value, ok := strings.CutPrefix(arg, "--http-endpoint="); ok {
			address = value
		}
	}
	return address
}

// saysNoSecret looks at headers and body of an answer, whatever it is.
func saysNoSecret(t testing.TB, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), sayTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return errors.Join(err, Leak(body), Leak(fmt.Append(nil, resp.Header)))
}

// WantNoLeakInState wants no value in what the driver keeps of live volumes, and no token but where it belongs. It is for
// before a volume goes: its record and its token go with it.
func WantNoLeakInState(t testing.TB, n *node.Node) {
	t.Helper()
	if err := leaksBelow(n.StateDir(), filepath.Join(n.StateDir(), "tokens")); err != nil {
		t.Error(err)
	}
	wantNoLeakInStatus(t, n)
}

// wantNoLeakInStatus wants no value and no token in what a driver reports its volumes while it has some. One that does not
// answer, because it was killed a moment ago, is skipped.
func wantNoLeakInStatus(t testing.TB, n *node.Node) {
	t.Helper()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.PID()))
	address := httpEndpoint(string(cmdline))
	if err != nil || address == "" {
		return
	}
	err = saysNoSecret(t, "http://"+address+"/statusz")
	if _, isSilent := errors.AsType[*url.Error](err); err != nil && !isSilent {
		t.Errorf("/statusz: %v", err)
	}
}

// wantNoLeakOnDisk wants that the driver of the node, which has ended, has written no value and no token to anything but
// volumes and the files of its tokens.
func wantNoLeakOnDisk(t testing.TB, n *node.Node) {
	t.Helper()
	if err := leaksBelow(filepath.Dir(n.StateDir()), filepath.Join(n.StateDir(), "tokens")); err != nil {
		t.Error(err)
	}
}
