package access_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// TestTokensThatLookExpiredAreTried: the clock of the node may be ahead by more than a token's life, and whether a token is
// valid the API server decides by its own. This is a part of fault 28.
func TestTokensThatLookExpiredAreTried(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "older", time.Now().Add(-2*time.Hour))
	g.keep("b", pod(), "newer", time.Now().Add(-time.Hour))
	g.wantTokens(pod(), "newer")
	g.wantTokens(pod(), "newer")
	g.server.refuse(http.StatusUnauthorized, "newer") // Its pod is gone.
	g.wantTokens(pod(), "newer", "older")
	g.wantTokens(pod(), "older")
	g.restart()
	g.wantTokens(pod(), "newer", "older")
}

// TestTokensThatLookExpiredAreTheLastChoice, after those that do not, and before those that were refused.
func TestTokensThatLookExpiredAreTheLastChoice(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "expired", time.Now().Add(-time.Hour))
	g.keep("b", pod(), "short", tomorrow)
	g.keep("c", pod(), "long", tomorrow.Add(time.Hour))
	g.wantTokens(pod(), "long")
	g.server.refuse(http.StatusUnauthorized, "long", "short")
	g.wantTokens(pod(), "long", "short", "expired")
	g.wantTokens(pod(), "expired")
}

// TestATokenThatIsExpiredIsTriedOnce: when the API server has refused it as well, it is dead. Nothing is asked from then on
// until the kubelet brings another one, and the error says by how much it looks expired, and that it may be the clock.
func TestATokenThatIsExpiredIsTriedOnce(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "old", time.Now().Add(-2*time.Hour))
	g.keep("b", pod(), "older", time.Now().Add(-3*time.Hour))
	g.server.refuse(http.StatusUnauthorized, "old", "older")
	for _, asked := range [][]string{{"old", "older"}, nil, nil} {
		got, err := g.read(pod())
		if !slices.Equal(got, asked) || !errors.Is(err, access.ErrNoToken) {
			t.Fatalf("asked with tokens %q, %v; want %q and %v", got, err, asked, access.ErrNoToken)
		}
		for _, want := range []string{"serviceaccount default/runner", "looks expired by 2h0m", "clock of this node", "requiresRepublish"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want it to say %q", err, want)
			}
		}
	}
	g.keep("a", pod(), "new", time.Now().Add(-time.Hour)) // As the clock has it.
	g.wantTokens(pod(), "new")
}

// TestATokenThatIsRefusedAndNotExpiredHasItsTurn beside one that looks expired: the refusal may be the server's mistake.
func TestATokenThatIsRefusedAndNotExpiredHasItsTurn(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "expired", time.Now().Add(-time.Hour))
	g.keep("b", pod(), "good", tomorrow)
	g.server.refuse(http.StatusUnauthorized, "expired", "good")
	g.wantRefusal(pod(), "good", "expired")
	g.wantRefusal(pod(), "good")
	g.server.refuse(0)
	g.wantTokens(pod(), "good")
}
