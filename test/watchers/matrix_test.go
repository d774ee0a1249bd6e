package watchers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// soon is how long something may take that takes moments when nothing else runs on the machine: a start of Java, or
// Prometheus, which looks every 5 seconds at what it has discovered.
const soon = 4 * kit.Soon

// again is after how long a marker is made again, and a server reloads again. A program may lose one while it is busy with
// the one before.
const again = 2 * time.Second

// changes is how often a volume changes. Many programs see the first change and lose the file by it.
const changes = 2

// The cells of the table.
const (
	seesAll      = "yes"
	seesFirst    = "once"
	seesNothing  = "no"
	cannotWatch  = "–"
	lastColumn   = "Never"
	firstVersion = 1
)

// policies are the update policies, in the order of the table.
func policies() []string { return []string{"Atomic", "Replace", "InPlace", lastColumn} }

// row is a program, as the table names it, and how it is started.
type row struct {
	name  string
	start func(t testing.TB, at place) (watcher, error)
}

// watcher is a program that was started in a container.
type watcher interface {
	// settle returns when the program has dealt with all that happened before. A server that needs a command to reload
	// gets it here. version is what the files have.
	settle(version int) error
	// sees reports whether the program has, or had, a version of the files.
	sees(version int) (bool, error)
}

// TestWhoSeesAChange compares the table of docs/watching.md with what programs see of two changes of a volume.
func TestWhoSeesAChange(t *testing.T) {
	if os.Getenv("UPDATE") != "" {
		t.Setenv("LIVECONFIG_UPDATE", "1")
	}
	columns := policies()
	cells := make(map[string][]string, len(columns))
	var mu sync.Mutex
	t.Run("policies", func(t *testing.T) {
		for _, policy := range columns {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				column := columnOf(t, policy)
				mu.Lock()
				defer mu.Unlock()
				cells[policy] = column
			})
		}
	})
	if t.Failed() {
		return
	}
	table := docs.Table{
		Page: "watching.md", Name: "who sees a change", Columns: append([]string{"program"}, columns...), WrittenBy: "UPDATE=1 make test/watchers",
	}
	for i, r := range rows() {
		line := []string{r.name}
		for _, policy := range columns {
			line = append(line, cells[policy][i])
		}
		table.Rows = append(table.Rows, line)
	}
	table.Compare(t)
}

// columnOf changes a volume with an update policy while all programs watch it, and returns the cells from top to bottom.
func columnOf(t *testing.T, policy string) []string {
	t.Helper()
	v := publish(t, policy)
	all := rows()
	watchers := make([]watcher, len(all))
	each(t, func(i int) (err error) {
		watchers[i], err = all[i].start(t, v.newPlace(t))
		return err
	})
	seen := make([]string, len(all))
	for version := firstVersion + 1; version <= firstVersion+changes; version++ {
		v.change(version)
		each(t, func(i int) error {
			if watchers[i] == nil {
				return nil
			}
			if err := watchers[i].settle(version); err != nil {
				return fmt.Errorf("after version %d: %w", version, err)
			}
			sees, err := watchers[i].sees(version)
			seen[i] += map[bool]string{true: "+", false: "-"}[sees]
			return err
		})
	}
	cells := make([]string, len(all))
	for i := range all {
		cell, ok := map[string]string{"++": seesAll, "+-": seesFirst, "--": seesNothing, "": cannotWatch}[seen[i]]
		if !ok {
			t.Errorf("%s sees the second change and not the first", all[i].name)
		}
		cells[i] = cell
	}
	return cells
}

// each does something for all rows at once. The test ends when all are done and one of them has failed.
func each(t *testing.T, do func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i, r := range rows() {
		wg.Go(func() {
			if err := do(i); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// volume is a volume whose files have a version.
type volume struct {
	*kit.Fixture

	policy string
	// pod has the volume. The volume of control has the same files, and is Atomic.
	pod, control *corev1.Pod
}

// publish starts a driver with a volume that has the first version.
func publish(t testing.TB, policy string) *volume {
	t.Helper()
	return publishFiles(t, policy, filesOf(firstVersion))
}

// publishFiles starts a driver with a volume that has these files.
func publishFiles(t testing.TB, policy string, files map[string]string) *volume {
	t.Helper()
	v := &volume{Fixture: kit.Without(t), policy: policy}
	v.put(files)
	v.pod = v.Pod("web", map[string]string{"configMap": objectName, "updatePolicy": policy})
	v.control = v.Pod("control", map[string]string{"configMap": objectName, "gid": "0"})
	v.Publish(v.pod)
	v.Publish(v.control)
	return v
}

// objectName is the name of the one source.
const objectName = "web"

// put writes the manifest of the object. Programs read the files, so that no mark may be around their values.
func (v *volume) put(files map[string]string) {
	v.T.Helper()
	text, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: objectName},
		Data:       files,
	})
	if err != nil {
		v.T.Fatal(err)
	}
	path := filepath.Join(v.Manifests, objectName+".json")
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		v.T.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		v.T.Fatal(err)
	}
}

// change returns when the files have the version and nothing more happens to the volume: the files before are removed.
func (v *volume) change(version int) {
	v.T.Helper()
	v.put(filesOf(version))
	v.await(v.control, version)
	if v.policy == lastColumn {
		version = firstVersion
	}
	v.await(v.pod, version)
}

func (v *volume) await(pod *corev1.Pod, version int) {
	v.T.Helper()
	expect.Eventually(v.T, soon, func() error {
		for file, want := range filesOf(version) {
			if err := v.Holds(pod, file, want); err != nil {
				return err
			}
		}
		generations, err := filepath.Glob(v.Path(pod, "..2*"))
		if err != nil || len(generations) > 1 {
			return fmt.Errorf("there are %d generations (%w)", len(generations), err)
		}
		return nil
	})
}

// watchedFile is the file that programs read which have no syntax for theirs.
const watchedFile = "app.conf"

// filesOf returns the files of a version.
func filesOf(version int) map[string]string {
	return map[string]string{
		watchedFile: versionText(version),
		"site.conf": fmt.Sprintf("location / { return 200 \"%s, $marker\\n\"; }\n", versionText(version)),
		"haproxy.cfg": strings.Join([]string{
			"frontend web", "  mode http", `  bind "unix@${SOCKET}"`,
			fmt.Sprintf(`  http-request return status 200 content-type text/plain string "%s, ${MARKER}"`, versionText(version)), "",
		}, "\n"),
		"targets.json": fmt.Sprintf(`[{"targets": ["127.0.0.1:1"], "labels": {"found": %q}}]`, versionText(version)),
	}
}

func versionText(version int) string { return fmt.Sprintf("version %d", version) }

// place is where a program of a row runs.
type place struct {
	volume *volume
	// dir is for the program's other files. Its name is short enough for sockets.
	dir string
	// view is where the program sees the volume, and markers a directory in which something happens after each change.
	view, markers string
	// binds are directories that the program sees at other paths as well.
	binds map[string]string
}

func (v *volume) newPlace(t testing.TB) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc-watch-") //nolint:usetesting // The paths of sockets must be short.
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := place{volume: v, dir: dir, view: filepath.Join(dir, "view"), markers: filepath.Join(dir, "markers")}
	for _, dir := range []string{p.view, p.markers} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Error(err)
		}
	}
	return p
}

// write writes a file of the place in one step.
func (p place) write(name, text string) error {
	path := filepath.Join(p.dir, name)
	temp := filepath.Join(p.dir, "new")
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// retry calls check until it returns nil, or the program has ended, or it takes too long.
func (p place) retry(program *process.Process, check func() error) error {
	deadline := time.Now().Add(soon)
	for {
		ended := program.Err() // What it printed before is checked once more.
		err := check()
		switch {
		case err == nil:
			return nil
		case ended != nil:
			return errors.Join(err, ended)
		case time.Now().After(deadline):
			return fmt.Errorf("%w; its log ends with:\n%s", err, process.Tail(p.log(), 2048))
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // The programs have no event for the test.
	}
}

// emulated marks the rows of programs that this test does not run: a stand-in makes the same system calls.
const emulated = " (same system calls)"

// rows are the rows of the table.
func rows() []row {
	const file, directory = watchedFile, "."
	python := []string{"/usr/bin/python3", filepath.Join("testdata", "watch.py")} // Debian's, for which the package is.
	node := []string{"/usr/bin/node", filepath.Join("testdata", "watch.js")}
	return []row{
		{"fsnotify (Go), the file", followByTask(file, "fsnotify")},
		{"fsnotify (Go), the directory", followByTask(directory, "fsnotify")},
		{"fsnotify (Go), `..data`", followByTask("..data", "fsnotify")},
		{"`inotifywait -m`, the file", followByTask(file, "inotifywait")},
		{"`inotifywait -m`, the directory", followByTask(directory, "inotifywait")},
		{"`while inotifywait`, the file", followByTask(file, "inotifywait in a loop")},
		{"watchdog (Python), the file", follow(file, python...)},
		{"watchdog (Python), the directory", follow(directory, python...)},
		{"chokidar (Node.js), the file", follow(file, node...)},
		{"chokidar (Node.js), the directory", follow(directory, node...)},
		{"Java `WatchService`, the directory", follow(directory, "java", filepath.Join("testdata", "Watch.java"))},
		{"Prometheus, `file_sd_configs`", prometheus},
		{"Envoy, `path` of xDS" + emulated, followByTask(directory, "envoy file")},
		{"Envoy, `watched_directory` of xDS and SDS" + emulated, followByTask(directory, "envoy directory")},
		{"nginx, `nginx -s reload`", nginx},
		{"HAProxy, SIGUSR2", haproxy},
		{"the script [below](#reload-by-a-command)", script},
		{"a program that polls the file's mtime", followByTask(file, "poll times")},
		{"a program that polls the file's content", followByTask(file, "poll contents")},
	}
}
