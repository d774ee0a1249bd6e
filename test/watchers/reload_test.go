package watchers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// TestProgramsThatAreAsked edits the config of real programs, with liveconfig-reload beside them as docs/reload.md has it. Each
// program answers with a good edit, and goes on with what it had after one that it refuses.
func TestProgramsThatAreAsked(t *testing.T) {
	t.Parallel()
	for name, p := range askedPrograms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startAsked(t, p)
			r.documented(name)
			r.serves("version 1")

			r.edit("version 2")
			r.serves("version 2")
			r.reports("/readyz", "200 ok")
			r.reports("/statusz", `"successes":1`)

			r.edit(broken)
			r.refuses()
			r.serves("version 2")

			r.edit("version 3")
			r.serves("version 3")
			r.reports("/readyz", "200 ok")
		})
	}
}

// broken is a version that the program refuses.
const broken = ""

// askedProgram is a program that reads its config when it is asked to.
type askedProgram struct {
	// file is the name of its config, and text what the file has for a version. The lines refused take the place of it for
	// one that the program refuses.
	file    string
	text    func(at asked, version string) string
	refused string
	// command is how it is started, and env what its environment has more.
	command func(at asked) []string
	env     func(at asked) []string
	// flags are those of liveconfig-reload, as the page has them. in has what the page has and what takes its place here, in
	// pairs.
	flags []string
	in    func(at asked) []string
	// answer asks the program over its port.
	answer func(at asked) (string, error)
	// shares is whether it looks for its own files below /usr/share.
	shares bool
	// reason is what /readyz says when the program refuses its config. Without one that is not to be seen, and log is what
	// the program logs.
	reason, log string
}

// asked is a running program with liveconfig-reload beside it.
type asked struct {
	place

	t       testing.TB
	program askedProgram
	// address is where the program answers, other where it does so for something else, and reloader liveconfig-reload.
	address, other, reloader string
	// root is where the servers are, and libraries the variable with their libraries.
	root, libraries string
	process, beside *process.Process
}

func startAsked(t testing.TB, p askedProgram) *asked {
	t.Helper()
	r := &asked{t: t, program: p, address: kit.FreeAddress(t), other: kit.FreeAddress(t), reloader: kit.FreeAddress(t)}
	v := publishFiles(t, "Atomic", map[string]string{p.file: p.text(*r, "version 1")})
	r.place = v.newPlace(t)
	root, env := unpacked(t, "")
	r.root = r.dir + "/root"
	r.libraries = strings.ReplaceAll(env[0], root, r.root)
	r.binds = map[string]string{root: r.root}
	if p.shares {
		r.binds[root+"/share"] = "/usr/share"
	}
	err := errors.Join(os.Mkdir(r.root, 0o755), os.Chmod(r.dir, 0o755), os.Mkdir(r.dir+"/data", 0o777), os.Chmod(r.dir+"/data", 0o777))
	if err != nil {
		t.Fatal(err)
	}
	if r.process, err = r.startIn(t, append([]string{"env"}, p.command(*r)...), r.environment(), ownProcesses); err != nil {
		t.Fatal(err)
	}
	r.serves("version 1")
	r.besideIt()
	return r
}

func (r *asked) environment() []string {
	env := []string{r.libraries, "HOME=" + r.dir + "/data"}
	if r.program.env != nil {
		env = append(env, r.program.env(*r)...)
	}
	return env
}

// besideIt starts liveconfig-reload in the container of the program.
func (r *asked) besideIt() {
	r.t.Helper()
	args := []string{"--listen=" + r.reloader, "--watch=" + r.view, "--timeout=2s", "--retries=0"}
	here := strings.NewReplacer(r.program.in(*r)...)
	for _, flag := range r.program.flags {
		args = append(args, here.Replace(flag))
	}
	var err error
	r.beside, err = process.Start(r.t.Context(), process.Config{
		Path: environment.AsShipped(r.t, "liveconfig-reload"), Args: args, Env: append(os.Environ(), r.environment()...), LogFile: r.log(), Beside: r.process.PID(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := r.beside.Kill(); err != nil {
			r.t.Error(err)
		}
	})
	r.reports("/readyz", "200 ok")
	r.reports("/statusz", `"content":1`)
}

// documented compares the flags with those of the page.
func (r *asked) documented(name string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reload.md"))
	if err != nil {
		r.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### "+name+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	_, list, _ := strings.Cut(section, "```yaml\n")
	list, _, _ = strings.Cut(list, "```")
	if want := "- " + strings.Join(r.program.flags, "\n- ") + "\n"; list != want {
		r.t.Errorf("docs/reload.md has for %s (-page +tried):\n%s", name, cmp.Diff(list, want))
	}
}

// TestPageOfProgramsThatAreAsked: docs/reload.md says of these programs, and no others, that they were tried.
func TestPageOfProgramsThatAreAsked(t *testing.T) {
	t.Parallel()
	var tried []string
	for _, row := range docs.Rows(t, "reload.md", "programs that are asked") {
		if name, _, _ := strings.Cut(strings.TrimPrefix(row[0], "["), "]"); strings.HasPrefix(row[3], "yes") {
			tried = append(tried, name)
		}
	}
	slices.Sort(tried)
	if want := slices.Sorted(maps.Keys(askedPrograms())); !slices.Equal(tried, want) {
		t.Errorf("the page says that %q were tried, want %q", tried, want)
	}
}

// edit changes the config.
func (r *asked) edit(version string) {
	r.t.Helper()
	text := r.program.text(*r, version)
	if version == broken {
		text = r.program.refused
	}
	r.volume.put(map[string]string{r.program.file: text})
}

// serves waits until the program answers with a version.
func (r *asked) serves(version string) {
	r.t.Helper()
	err := r.retry(r.process, func() error {
		got, err := r.program.answer(*r)
		if err == nil && !strings.Contains(got, version) {
			err = fmt.Errorf("it answers %q, want %s", got, version)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// refuses waits until liveconfig-reload says why the program does not work with its config, or where that cannot be seen,
// until the program does.
func (r *asked) refuses() {
	r.t.Helper()
	if r.program.reason != "" {
		r.reports("/readyz", "503 "+strings.NewReplacer(r.program.in(*r)...).Replace(r.program.reason))
		return
	}
	err := r.retry(r.process, func() error {
		text, err := os.ReadFile(r.log())
		if err == nil && !strings.Contains(string(text), r.program.log) {
			err = fmt.Errorf("its log lacks %q", r.program.log)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.reports("/readyz", "200 ok")
}

// reports waits for an answer of liveconfig-reload.
func (r *asked) reports(path, want string) {
	r.t.Helper()
	err := r.retry(r.beside, func() error {
		got, err := ask("http://" + r.reloader + path)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("%s answers %q, want %q", path, got, want)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// ask returns status and text of an answer.
func ask(url string) (string, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // Workers of before keep connections.
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, text), err
}
