package watchers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// TestMemoryOfReload: liveconfig-reload runs in every pod, so it has at most 8 MiB, however often the files change and somebody
// asks.
func TestMemoryOfReload(t *testing.T) {
	t.Parallel()
	const edits, most = 10, 8 << 20
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "loaded 1\n")
	}))
	t.Cleanup(program.Close)
	v := volumes.New(t, atomicdir.Atomic{})
	write := func(version int) {
		t.Helper()
		files := map[string]string{}
		for i := range 50 {
			files[fmt.Sprintf("dashboards/%d.json", i)] = strings.Repeat(fmt.Sprintf("%d %d\n", version, i), 4000)
		}
		expect.NoError(t, v.Write(files))
	}
	write(0)
	address := kit.FreeAddress(t)
	reload, err := process.Start(t.Context(), process.Config{
		Path: environment.AsShipped(t, "liveconfig-reload"), LogFile: filepath.Join(t.TempDir(), "log"), Env: os.Environ(),
		Args: []string{
			"--watch=" + v.Path, "--listen=" + address, "--http=POST " + program.URL, "--verify=" + program.URL, "--verify-contains=loaded 1",
		},
	})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, reload.Kill()) })
	answers := func(path, want string) {
		t.Helper()
		expect.Eventually(t, 30*time.Second, func() error {
			got, err := ask("http://" + address + path)
			if err == nil && !strings.Contains(got, want) {
				err = fmt.Errorf("%s answers %q, want %q", path, got, want)
			}
			return err
		})
	}
	answers("/statusz", `"content":1,"files":50`)
	for version := range edits {
		write(version + 1)
		answers("/statusz", fmt.Sprintf(`"successes":%d`, version+1))
		answers("/readyz", "200 ok")
		answers("/metrics", "liveconfig_reload_failing 0")
	}
	memory, err := proc.MemoryOf(reload.PID())
	expect.NoError(t, err)
	t.Logf("%d kB resident, of which %d kB are anonymous", memory.Resident>>10, memory.Anonymous>>10)
	if memory.Resident > most {
		t.Errorf("%d kB are resident after %d edits, want at most %d", memory.Resident>>10, edits, most>>10)
	}
}
