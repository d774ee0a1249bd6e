package access_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// TestTheTokenThatLivesLongestCounts, of those that the volumes of one service account came with.
func TestTheTokenThatLivesLongestCounts(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "first", tomorrow)
	g.keep("b", pod(), "longer", tomorrow.Add(time.Hour))
	g.keep("c", api.Pod{Namespace: "default", ServiceAccount: "other"}, "another's", tomorrow.Add(2*time.Hour))
	g.wantTokens(pod(), "longer")
	if err := g.vault.Drop("b"); err != nil { // Its pod is gone, and the token dead.
		t.Fatal(err)
	}
	g.wantTokens(pod(), "first")
	g.keep("a", pod(), "refreshed", tomorrow.Add(time.Minute))
	g.keep("a", pod(), "", time.Time{}) // A call without one takes nothing away.
	g.wantTokens(pod(), "refreshed")
}

func TestAfterARestartReadingResumes(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "kept", tomorrow)
	g.keep("b", api.Pod{Namespace: "default", ServiceAccount: "other"}, "gone", tomorrow)
	g.restart()
	g.wantTokens(pod(), "kept")
	if err := g.vault.Retain(func(id string) bool { return id == "a" }); err != nil {
		t.Fatal(err)
	}
	g.restart()
	g.wantTokens(pod(), "kept")
	if got, err := g.read(api.Pod{Namespace: "default", ServiceAccount: "other"}); len(got) != 0 || !errors.Is(err, access.ErrNoToken) {
		t.Errorf("asked with tokens %q, %v; want %v", got, err, access.ErrNoToken)
	}
}

// TestATokenWhoseFileIsGoneIsWrittenAgain is a part of fault 20: somebody clears the directory under a running driver.
func TestATokenWhoseFileIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "kept", tomorrow)
	if err := g.files.Delete("a"); err != nil {
		t.Fatal(err)
	}
	g.keep("a", pod(), "kept", tomorrow)
	g.restart()
	g.wantTokens(pod(), "kept")
}

func TestWithoutAValidTokenNothingIsAsked(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(g *ground){
		"none was given":  func(*ground) {},
		"it was dropped":  func(g *ground) { g.keep("a", pod(), "x", tomorrow); _ = g.vault.Drop("a") },
		"it is another's": func(g *ground) { g.keep("a", api.Pod{Namespace: "x", ServiceAccount: "runner"}, "x", tomorrow) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			prepare(g)
			got, err := g.read(pod())
			if len(got) != 0 || !errors.Is(err, access.ErrNoToken) || !strings.Contains(err.Error(), "tokenRequests") {
				t.Errorf("asked with tokens %q, %v; want %v and how to have one brought", got, err, access.ErrNoToken)
			}
		})
	}
}

func TestAllPodsShareOneConnection(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, name := range []string{"a", "b", "c"} {
		p := api.Pod{Namespace: "default", ServiceAccount: name}
		g.keep(name, p, name+"'s", tomorrow)
		g.wantTokens(p, name+"'s")
	}
	if got := len(g.server.connections); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestATokenThatCannotBeWrittenIsHeld: this run of the driver needs it.
func TestATokenThatCannotBeWrittenIsHeld(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	if err := g.vault.Store("a\xff", pod(), access.NewToken("hunter2", tomorrow)); err != nil {
		t.Fatal(err)
	}
	g.vault = access.NewVault(failing{})
	if err := g.vault.Store("a", pod(), access.NewToken("hunter2", tomorrow)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Keep = %v, want an error without the token", err)
	}
	if err := g.vault.Store("a", pod(), access.NewToken("hunter2", tomorrow)); err == nil {
		t.Error("Keep of what is held and not written = nil, want another try")
	}
}

// failing are files on a disk that is full.
type failing struct{}

var errFull = errors.New("no space left on device")

func (failing) Put(string, []byte) error { return errFull }
func (failing) Delete(string) error      { return nil }
func (failing) Has(string) bool          { return false }
func (failing) List() ([][]byte, error)  { return [][]byte{[]byte(`{"token": "hunter2`)}, errFull }

func TestLoadReportsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	err := access.NewVault(failing{}).Load()
	if !errors.Is(err, errFull) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Load = %v, want %v and nothing of a token", err, errFull)
	}
}
