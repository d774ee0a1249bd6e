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
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// withThree returns a ground with three tokens of one service account.
func withThree(t *testing.T) *ground {
	t.Helper()
	g := newGround(t)
	g.keep("b", pod(), "middle", tomorrow.Add(time.Hour))
	g.keep("a", pod(), "long", tomorrow.Add(2*time.Hour))
	g.keep("c", pod(), "short", tomorrow)
	return g
}

// wantRefusal makes one request as the pod, which fails after the tokens because none is taken.
func (g *ground) wantRefusal(p api.Pod, want ...string) {
	g.Helper()
	got, err := g.read(p)
	if diff := cmp.Diff(want, got); diff != "" || !apierrors.IsUnauthorized(err) {
		g.Errorf("asked with other tokens, or not refused: %v (-want +got):\n%s", err, diff)
	}
}

// TestARefusedTokenIsPassedOver: its pod is gone. The next one is used in the same request, and from then on at once.
// This is fault 28.
func TestARefusedTokenIsPassedOver(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.wantTokens(pod(), "long")
	g.server.refuse(http.StatusUnauthorized, "long")
	g.wantTokens(pod(), "long", "middle")
	g.wantTokens(pod(), "middle")
	g.server.refuse(http.StatusUnauthorized, "long", "middle")
	g.wantTokens(pod(), "middle", "short")
	g.wantTokens(pod(), "short")
	if got := len(g.server.connections); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestWhereAllAreRefusedEachHasItsTurn: the answer is the server's, and later requests cost one token each.
func TestWhereAllAreRefusedEachHasItsTurn(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.server.refuse(http.StatusUnauthorized, "long", "middle", "short")
	g.wantRefusal(pod(), "long", "middle", "short")
	for _, want := range []string{"long", "middle", "short", "long", "middle"} {
		g.wantRefusal(pod(), want)
	}
	g.server.refuse(0)
	g.wantTokens(pod(), "short") // Its turn, and it is taken: so it stays first.
	g.wantTokens(pod(), "short")
	g.server.refuse(http.StatusUnauthorized, "short")
	g.wantRefusal(pod(), "short")
	g.wantTokens(pod(), "long") // The one that was refused longest ago.
	g.wantTokens(pod(), "long")
	if got := len(g.server.connections); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestOnlyARefusalOfTheTokenCounts: the pod may not read, the server is unwell, nothing is there: that is the answer.
func TestOnlyARefusalOfTheTokenCounts(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusNotFound, http.StatusGone} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			g := withThree(t)
			g.server.refuse(status, "long", "middle", "short")
			for range 2 {
				got, err := g.read(pod())
				if _, ok := errors.AsType[*apierrors.StatusError](err); !ok || !slices.Equal(got, []string{"long"}) {
					t.Errorf("asked with tokens %q, %v; want the longest-lived once, and the answer", got, err)
				}
			}
		})
	}
}

func TestANewerTokenStartsUnrefused(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.server.refuse(http.StatusUnauthorized, "long", "middle", "short")
	g.wantRefusal(pod(), "long", "middle", "short")
	g.keep("c", pod(), "newer", tomorrow.Add(time.Minute)) // It lives shorter than the refused ones.
	g.wantTokens(pod(), "newer")
	g.wantTokens(pod(), "newer")
}

// TestATokenThatIsTakenAgainIsAsGoodAsAny: a request falls back on it.
func TestATokenThatIsTakenAgainIsAsGoodAsAny(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.server.refuse(http.StatusUnauthorized, "long", "middle", "short")
	g.wantRefusal(pod(), "long", "middle", "short")
	g.server.refuse(http.StatusUnauthorized, "middle", "short", "newer")
	g.wantTokens(pod(), "long") // The one that was refused longest ago.
	g.keep("b", pod(), "newer", tomorrow.Add(3*time.Hour))
	g.wantTokens(pod(), "newer", "long")
	g.wantTokens(pod(), "long")
}

// TestTheSameTokenAgainIsStillRefused: the kubelet brings one again until it is half as old as it may get.
func TestTheSameTokenAgainIsStillRefused(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.server.refuse(http.StatusUnauthorized, "long")
	g.wantTokens(pod(), "long", "middle")
	g.keep("a", pod(), "long", tomorrow.Add(2*time.Hour))
	g.wantTokens(pod(), "middle")
}

// TestATokenOfManyVolumesIsTriedOnce: they belong to one pod.
func TestATokenOfManyVolumesIsTriedOnce(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, volume := range []string{"a", "b", "c"} {
		g.keep(volume, pod(), "shared", tomorrow.Add(time.Hour))
	}
	g.keep("d", pod(), "other", tomorrow)
	g.server.refuse(http.StatusUnauthorized, "shared", "other")
	g.wantRefusal(pod(), "shared", "other")
}

// TestARefusalIsOneServiceAccounts: that of another one is neither tried nor passed over.
func TestARefusalIsOneServiceAccounts(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	g.keep("d", other, "long", tomorrow.Add(2*time.Hour)) // Nonsense, but then it is told by account, not by token.
	g.keep("e", other, "other's", tomorrow)
	g.server.refuse(http.StatusUnauthorized, "long", "middle", "short")
	g.wantRefusal(pod(), "long", "middle", "short")
	g.wantTokens(other, "long", "other's")
}

func TestWhatWasDroppedIsNotTried(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	if err := g.vault.Drop("b"); err != nil {
		t.Fatal(err)
	}
	g.server.refuse(http.StatusUnauthorized, "long")
	g.wantTokens(pod(), "long", "short")
}

// TestTheNextRunTriesAllAnew: a refusal is not written to disk.
func TestTheNextRunTriesAllAnew(t *testing.T) {
	t.Parallel()
	g := withThree(t)
	g.server.refuse(http.StatusUnauthorized, "long", "middle")
	g.wantTokens(pod(), "long", "middle", "short")
	g.restart()
	g.wantTokens(pod(), "long", "middle", "short")
}

// TestManyReadWhileTokensComeAndGo is for the race detector. Every request ends, and with the tokens of its own account.
func TestManyReadWhileTokensComeAndGo(t *testing.T) {
	t.Parallel()
	g := newGround(t)
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
		g.keep(account+"-0", p, account+"-0", tomorrow) // Which is always taken.
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

func comeAndGo(g *ground, p api.Pod) {
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

// readMany makes requests that all succeed, because one token is always taken.
func readMany(g *ground, p api.Pod) {
	client, err := g.all.Client(access.Of(p))
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
