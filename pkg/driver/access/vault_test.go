package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// step is a part of a scenario.
type step func(g *fixture)

// stores stores a token of a volume. It looks expired if hours is negative.
func stores(volumeID, token string, hours int) step {
	from := tomorrow
	if hours < 0 {
		from = time.Now()
	}
	return func(g *fixture) { g.store(volumeID, pod(), token, from.Add(time.Duration(hours)*time.Hour)) }
}

func drops(volumeID string) step {
	return func(g *fixture) {
		if err := g.vault.Drop(volumeID); err != nil {
			g.Error(err)
		}
	}
}

// refuses lets the API server refuse the tokens, and no others, from now on.
func refuses(tokens ...string) step {
	return func(g *fixture) { g.server.refuse(http.StatusUnauthorized, tokens...) }
}

// uses makes one request, which succeeds with the last of the tokens.
func uses(tokens ...string) step {
	return func(g *fixture) { g.wantTokens(pod(), tokens...) }
}

// fails makes one request, which the API server refuses with each of the tokens.
func fails(tokens ...string) step {
	return func(g *fixture) { g.wantRefusal(pod(), tokens...) }
}

// lacks makes one request, which ends without a usable token after the API server has refused the
// tokens.
func lacks(tokens ...string) step {
	return func(g *fixture) {
		got, err := g.read(pod())
		if !slices.Equal(got, tokens) || !errors.Is(err, access.ErrNoToken) {
			g.Errorf("asked with tokens %q, %v; want %q and %v", got, err, tokens, access.ErrNoToken)
		}
	}
}

// wantRefusal makes one request as the pod, which fails after the tokens.
func (g *fixture) wantRefusal(p api.Pod, want ...string) {
	g.Helper()
	got, err := g.read(p)
	if diff := cmp.Diff(want, got); diff != "" || !apierrors.IsUnauthorized(err) {
		g.Errorf("asked with other tokens, or not refused: %v (-want +got):\n%s", err, diff)
	}
}

// three are tokens of three volumes of one service account.
func three() []step {
	return []step{stores("b", "middle", 2), stores("a", "long", 3), stores("c", "short", 1)}
}

func then(first []step, others ...step) []step { return append(first, others...) }

// TestWhichTokenIsUsed: of the tokens of a service account, the one that expires last and was not
// refused. A refused token is replaced within the same request. The clock of the node may be
// ahead, so tokens that look expired are tried too. This is fault 28.
func TestWhichTokenIsUsed(t *testing.T) {
	t.Parallel()
	restarts := (*fixture).restart
	all := refuses("long", "middle", "short")
	for name, steps := range map[string][]step{
		"the one that expires last": {stores("a", "first", 1), stores("b", "longer", 2), uses("longer")},
		"after its pod is gone":     {stores("a", "first", 1), stores("b", "longer", 2), drops("b"), uses("first")},
		"a newer one of the volume": {stores("a", "old", 1), stores("a", "new", 1), uses("new")},
		"after a call without one":  {stores("a", "old", 1), stores("a", "", 1), uses("old")},
		"the next after a refusal": then(three(), uses("long"), refuses("long"), uses("long", "middle"), uses("middle"),
			refuses("long", "middle"), uses("middle", "short"), uses("short")),
		"each in turn if all are refused": then(three(), all, fails("long", "middle", "short"),
			fails("long"), fails("middle"), fails("short"), fails("long"), fails("middle"), refuses(),
			uses("short"), uses("short"), refuses("short"), fails("short"), uses("long"), uses("long")),
		"a new one before refused ones": then(three(), all, fails("long", "middle", "short"),
			stores("c", "newer", 1), uses("newer"), uses("newer")),
		"a refused one that is accepted again": then(three(), all, fails("long", "middle", "short"),
			refuses("middle", "short", "newer"), uses("long"), stores("b", "newer", 4), uses("newer", "long"), uses("long")),
		"not a refused one that comes again": then(three(), refuses("long"), uses("long", "middle"), stores("a", "long", 3),
			uses("middle")),
		"once for many volumes": {
			stores("a", "shared", 2), stores("b", "shared", 2), stores("c", "shared", 2), stores("d", "other", 1),
			refuses("shared", "other"), fails("shared", "other"),
		},
		"not one that was dropped":    then(three(), drops("b"), refuses("long"), uses("long", "short")),
		"all again after a restart":   then(three(), refuses("long", "middle"), uses("long", "middle", "short"), restarts, uses("long", "middle", "short")),
		"one that looks expired":      {stores("a", "older", -2), stores("b", "newer", -1), uses("newer"), uses("newer")},
		"the next that looks expired": {stores("a", "older", -2), stores("b", "newer", -1), refuses("newer"), uses("newer", "older"), uses("older"), restarts, uses("newer", "older")},
		"one that looks expired at last": then(three(), stores("d", "expired", -1), uses("long"), all,
			uses("long", "middle", "short", "expired"), uses("expired")),
		"one that looks expired once": {
			stores("a", "old", -2), stores("b", "older", -3), refuses("old", "older"), lacks("old", "older"), lacks(), lacks(),
			stores("c", "new", -1), uses("new"),
		},
		"a refused one before an expired one": {
			stores("a", "expired", -1), stores("b", "good", 1), refuses("expired", "good"), fails("good", "expired"), fails("good"),
			refuses(), uses("good"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFixture(t)
			for i, step := range steps {
				if step(g); t.Failed() {
					t.Fatalf("in step %d", i)
				}
			}
			if got := len(g.server.connections); got != 1 {
				t.Errorf("%d connections, want 1", got)
			}
		})
	}
}

// TestOnlyARefusalOfTheTokenCounts: other errors are the answer.
func TestOnlyARefusalOfTheTokenCounts(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusNotFound, http.StatusGone} {
		g := newFixture(t)
		for _, step := range three() {
			step(g)
		}
		g.server.refuse(status, "long", "middle", "short")
		for range 2 {
			got, err := g.read(pod())
			if _, ok := errors.AsType[*apierrors.StatusError](err); !ok || !slices.Equal(got, []string{"long"}) {
				t.Errorf("status %d: asked with tokens %q, %v; want the first one once, and the answer", status, got, err)
			}
		}
	}
}

// TestServiceAccountsAreSeparate: tokens and refusals of one do not matter to another. All share
// a connection.
func TestServiceAccountsAreSeparate(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	g.store("a", pod(), "long", tomorrow)
	g.store("b", other, "long", tomorrow.Add(2*time.Hour)) // The same text, but accounts count.
	g.store("c", other, "other's", tomorrow.Add(time.Hour))
	g.server.refuse(http.StatusUnauthorized, "long")
	g.wantRefusal(pod(), "long")
	g.wantTokens(other, "long", "other's")
	if got := len(g.server.connections); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestAfterARestartReadingResumes with the tokens of known volumes.
func TestAfterARestartReadingResumes(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	g.store("a", pod(), "stored", tomorrow)
	g.store("b", other, "gone", tomorrow)
	g.restart()
	g.wantTokens(pod(), "stored")
	expect.NoError(t, g.vault.Retain(func(id string) bool { return id == "a" }))
	g.restart()
	g.wantTokens(pod(), "stored")
	if got, err := g.read(other); len(got) != 0 || !errors.Is(err, access.ErrNoToken) {
		t.Errorf("asked with tokens %q, %v; want %v", got, err, access.ErrNoToken)
	}
}

// TestATokenWhoseFileIsGoneIsWrittenAgain is a part of fault 20: somebody clears the directory
// under a running driver.
func TestATokenWhoseFileIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	g.store("a", pod(), "stored", tomorrow)
	expect.NoError(t, g.files.Delete("a"))
	g.store("a", pod(), "stored", tomorrow)
	g.restart()
	g.wantTokens(pod(), "stored")
}

// TestWithoutAUsableTokenTheErrorHelps, and nothing is asked.
func TestWithoutAUsableTokenTheErrorHelps(t *testing.T) {
	t.Parallel()
	const account = "serviceaccount default/runner"
	another := func(g *fixture) { g.store("a", api.Pod{Namespace: "x", ServiceAccount: "runner"}, "x", tomorrow) }
	for name, test := range map[string]struct {
		steps []step
		want  []string
	}{
		"none was given":  {nil, []string{account, "tokenRequests"}},
		"it was dropped":  {[]step{stores("a", "x", 1), drops("a")}, []string{account, "tokenRequests"}},
		"it is another's": {[]step{another}, []string{account, "tokenRequests"}},
		"it was refused": {
			[]step{stores("a", "x", -2), refuses("x"), lacks("x")},
			[]string{account, "looks expired by 2h0m", "clock of this node", "requiresRepublish"},
		},
	} {
		g := newFixture(t)
		for _, step := range test.steps {
			step(g)
		}
		got, err := g.read(pod())
		if len(got) != 0 || !errors.Is(err, access.ErrNoToken) {
			t.Fatalf("%s: asked with tokens %q, %v; want %v", name, got, err, access.ErrNoToken)
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error = %v, want it to have %q", name, err, want)
			}
		}
	}
}

// failing are files on a disk that is full.
type failing struct{}

var errFull = errors.New("no space left on device")

func (failing) Put(string, []byte) error { return errFull }
func (failing) Delete(string) error      { return nil }
func (failing) Has(string) bool          { return false }
func (failing) List() ([][]byte, error)  { return [][]byte{[]byte(`{"token": "hunter2`)}, errFull }

// TestFilesThatFail are reported without a part of a token. A token that cannot be written is
// tried again.
func TestFilesThatFail(t *testing.T) {
	t.Parallel()
	vault := access.NewVault(failing{})
	for range 2 {
		err := vault.Store("a", pod(), access.NewToken("hunter2", tomorrow))
		if !errors.Is(err, errFull) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Store = %v, want %v without the token", err, errFull)
		}
	}
	if err := vault.Load(); !errors.Is(err, errFull) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Load = %v, want %v without a part of a token", err, errFull)
	}
	if err := newFixture(t).vault.Store("a\xff", pod(), access.NewToken("hunter2", tomorrow)); err != nil {
		t.Errorf("Store of an odd ID = %v, want no error", err)
	}
}

// TestManyReadWhileTokensComeAndGo is for the race detector. Every request ends, and with the
// tokens of its account.
func TestManyReadWhileTokensComeAndGo(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	accounts := []string{"red", "blue"}
	asked := 0
	g.server.refuseBy(func(token string) int { // Called under the server's lock.
		if asked++; asked%3 != 0 && !strings.HasSuffix(token, "-0") {
			return http.StatusUnauthorized
		}
		return 0
	})
	var running sync.WaitGroup
	for _, account := range accounts {
		p := api.Pod{Namespace: account, ServiceAccount: account}
		g.store(account+"-0", p, account+"-0", tomorrow) // It is always accepted.
		running.Go(func() { comeAndGo(g, p) })
		for range 4 {
			running.Go(func() { readMany(g, p) })
		}
	}
	running.Wait()
	for _, token := range g.server.take() {
		if account, _, _ := strings.Cut(token, "-"); !slices.Contains(accounts, account) {
			t.Errorf("asked with token %q", token)
		}
	}
}

func comeAndGo(g *fixture, p api.Pod) {
	for i := range 60 {
		id := fmt.Sprintf("%s-%d", p.ServiceAccount, 1+i%4)
		err := g.vault.Store(id, p, access.NewToken(fmt.Sprintf("%s-%d", p.ServiceAccount, 1+i), tomorrow.Add(time.Duration(i)*time.Minute)))
		if i%3 == 0 {
			err = errors.Join(err, g.vault.Drop(id))
		}
		if err != nil {
			g.Error(err)
		}
	}
}

// readMany makes requests that all succeed, because one token is always accepted.
func readMany(g *fixture, p api.Pod) {
	client, err := g.all.Client(identity.Of(p))
	if err != nil {
		g.Error(err)
		return
	}
	for range 40 {
		if err := list(g.Context(), client, p.Namespace); err != nil {
			g.Errorf("List as %s = %v, want no error", p.ServiceAccount, err)
		}
	}
}
