package watchers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// ownProcesses are the namespaces of a program that starts others: these end with it, and a command can run beside it.
const ownProcesses = unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// unpacked returns the path of a server below bin/debian-servers, and the environment with its libraries.
func unpacked(t testing.TB, program string) (path string, env []string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "bin", "debian-servers"))
	if err != nil {
		t.Error(err)
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		t.Error(err)
	}
	return filepath.Join(root, "usr", program), []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
}

// server is a program that answers with the version that it has read and the marker.
type server struct {
	place

	process *process.Process
	url     string
	client  *http.Client
	markers int
	answer  string
	// mark writes the marker into the program's other files. Then reload has the program read all of them; it is nil for a
	// program that watches.
	mark   func(marker string) error
	reload func() error
}

// onSocket returns a server that answers at a socket.
func (p place) onSocket() *server {
	s := &server{place: p, url: "http://server/"}
	s.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // A connection stays with the process that took it, and so with the files of that process.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.socket())
		},
	}}
	return s
}

func (p place) socket() string { return filepath.Join(p.dir, "socket") }

// settle reloads, and waits for an answer with the new marker: that process has read its files after the change. A server
// that watches does so again if the version is not in the answer: it may see the marker before an older change.
func (s *server) settle(version int) error {
	err := s.settleOnce()
	if err != nil || s.reload != nil || strings.Contains(s.answer, versionText(version)) {
		return err
	}
	return s.settleOnce()
}

func (s *server) settleOnce() error {
	s.markers++
	if err := s.mark(markerText(s.markers)); err != nil {
		return err
	}
	var reloaded time.Time
	return s.await(markerText(s.markers), func() (err error) {
		if s.reload != nil && time.Since(reloaded) > again {
			err, reloaded = s.reload(), time.Now()
		}
		return err
	})
}

// await waits for an answer with a text. It does something before each time that it asks.
func (s *server) await(want string, before ...func() error) error {
	return s.retry(s.process, func() error {
		for _, do := range before {
			if err := do(); err != nil {
				return err
			}
		}
		answer, err := s.ask()
		if err == nil && !strings.Contains(answer, want) {
			err = fmt.Errorf("it answers %q, want %q", answer, want)
		}
		s.answer = answer
		return err
	})
}

func (s *server) ask() (string, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func (s *server) sees(version int) (bool, error) {
	return strings.Contains(s.answer, versionText(version)), nil
}

// nginx includes a file of the volume. It reloads by `nginx -s reload` in its container.
func nginx(t testing.TB, at place) (watcher, error) {
	t.Helper()
	program, env := unpacked(t, "sbin/nginx")
	s := at.onSocket()
	config := filepath.Join(at.dir, "nginx.conf")
	lines := []string{
		"daemon off;", "user root;", "worker_processes 1;", "error_log stderr;", "pid " + at.dir + "/pid;", "events {}",
		"http {", "access_log off;", "default_type text/plain;",
	}
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		lines = append(lines, fmt.Sprintf("%s_temp_path %s/temp-%[1]s;", name, at.dir))
	}
	lines = append(lines, "server {", "listen unix:"+at.socket()+";", "include "+at.dir+"/marker;", "include "+at.view+"/site.conf;", "}", "}", "")
	s.mark = func(marker string) error { return at.write("marker", fmt.Sprintf("set $marker %q;\n", marker)) }
	if err := errors.Join(at.write("nginx.conf", strings.Join(lines, "\n")), s.mark(markerText(0))); err != nil {
		return nil, err
	}
	command := []string{program, "-e", "stderr", "-c", config}
	var err error
	if s.process, err = at.startIn(t, command, env, ownProcesses); err != nil {
		return nil, err
	}
	s.reload = func() error { return s.runBeside(append(command, "-s", "reload"), env) }
	return s, s.await(markerText(0))
}

// haproxy reads a file of the volume. Its master reloads at SIGUSR2.
func haproxy(t testing.TB, at place) (watcher, error) {
	t.Helper()
	program, env := unpacked(t, "sbin/haproxy")
	s := at.onSocket()
	s.mark = func(marker string) error {
		return at.write("first.cfg", fmt.Sprintf("global\n  setenv SOCKET %s\n  setenv MARKER %q\ndefaults\n  timeout client 10s\n", at.socket(), marker))
	}
	if err := s.mark(markerText(0)); err != nil {
		return nil, err
	}
	command := []string{program, "-W", "-db", "-f", filepath.Join(at.dir, "first.cfg"), "-f", filepath.Join(at.view, "haproxy.cfg")}
	var err error
	if s.process, err = at.startIn(t, command, env, ownProcesses); err != nil {
		return nil, err
	}
	s.reload = func() error { return unix.Kill(s.process.PID(), unix.SIGUSR2) }
	return s, s.await(markerText(0))
}

// prometheus discovers targets in a file of the volume, and in the marker. It gets no command.
func prometheus(t testing.TB, at place) (watcher, error) {
	t.Helper()
	program, env := unpacked(t, "bin/prometheus")
	address := kit.FreeAddress(t)
	s := &server{place: at, url: "http://" + address + "/api/v1/targets", client: &http.Client{}}
	config, err := json.Marshal(map[string]any{
		"global": map[string]string{"scrape_interval": "1h"},
		"scrape_configs": []map[string]any{
			{"job_name": "volume", "file_sd_configs": []map[string]any{{"files": []string{at.view + "/targets.json"}, "refresh_interval": "1h"}}},
			{"job_name": "marker", "file_sd_configs": []map[string]any{{"files": []string{at.markers + "/marker.json"}, "refresh_interval": "1h"}}},
		},
	})
	s.mark = func(marker string) error {
		return at.write("markers/marker.json", fmt.Sprintf(`[{"targets": ["127.0.0.1:1"], "labels": {"found": %q}}]`, marker))
	}
	if err := errors.Join(err, at.write("prometheus.yml", string(config)), s.mark(markerText(0))); err != nil {
		return nil, err
	}
	command := []string{
		program, "--config.file=" + filepath.Join(at.dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(at.dir, "data"),
		"--web.listen-address=" + address,
	}
	if s.process, err = at.startIn(t, command, env, 0); err != nil {
		return nil, err
	}
	return s, errors.Join(s.await(markerText(0)), s.await(versionText(firstVersion)))
}

// runBeside runs a command in the container of the program, as `kubectl exec` does.
func (s *server) runBeside(command, env []string) error {
	beside, err := process.Start(context.Background(), process.Config{
		Path: command[0], Args: command[1:], Env: append(os.Environ(), env...), LogFile: s.log(), Beside: s.process.PID(),
	})
	if err != nil {
		return err
	}
	<-beside.Done()
	if err := beside.Err(); !strings.Contains(err.Error(), "exit status 0") {
		return err
	}
	return nil
}
