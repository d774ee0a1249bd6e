package budget_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

const mebi = 1 << 20

func ignore(int64) {}

// wantExhausted checks that an error is one of a full budget.
func wantExhausted(t *testing.T, err error, want budget.ExhaustedError) {
	t.Helper()
	got, ok := errors.AsType[*budget.ExhaustedError](err)
	if !ok {
		t.Fatalf("error = %v, want an *ExhaustedError", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func wantUsed(t *testing.T, b *budget.Budget, want int64) {
	t.Helper()
	if got := b.Used(); got != want {
		t.Errorf("Used() = %d, want %d", got, want)
	}
}

// hundred returns a budget of 100 bytes, and a part of it.
func hundred() (*budget.Budget, *budget.Part) {
	b := budget.New(100)
	return b, b.Part(func(int64) {})
}

func wantReported(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("told: %q, want %q", got, want)
	}
}

func resize(t *testing.T, a *budget.Account, n int64) {
	t.Helper()
	if err := a.Resize(n); err != nil {
		t.Fatalf("Resize(%d) = %v, want nil", n, err)
	}
}

// TestNeverMoreThanThereAre are given to who asks.
func TestNeverMoreThanThereAre(t *testing.T) {
	t.Parallel()
	b, p := hundred()
	first, second := p.Account(), p.Account()
	resize(t, first, 60)
	resize(t, second, 40)
	wantExhausted(t, second.Resize(41), budget.ExhaustedError{Want: 1, Free: 0, Used: 100, Limit: 100})
	if got := second.Size(); got != 40 {
		t.Errorf("Size() = %d after a refusal, want 40", got)
	}
	resize(t, first, 30)
	wantExhausted(t, second.Resize(71), budget.ExhaustedError{Want: 31, Free: 30, Used: 70, Limit: 100})
	resize(t, second, 70)
	wantUsed(t, b, 100)
	first.Close()
	wantUsed(t, b, 70)
	resize(t, first, 10) // It is nobody's any more.
	first.Force(10)
	wantUsed(t, b, 70)
}

func TestNewcomersLeaveAShare(t *testing.T) {
	t.Parallel()
	_, p := hundred()
	first, second := p.Account(), p.Account()
	wantExhausted(t, first.Open(76), budget.ExhaustedError{Want: 76, Free: 75, Used: 0, Limit: 100, IsNew: true})
	if err := first.Open(74); err != nil {
		t.Fatalf("Open(74) = %v, want nil", err)
	}
	resize(t, first, 80)
	wantExhausted(t, second.Open(1), budget.ExhaustedError{Want: 1, Free: 0, Used: 80, Limit: 100, IsNew: true})
	if err := first.Open(79); err != nil {
		t.Errorf("Open of less = %v, want nil", err)
	}
}

func TestWhatIsThereIsTakenWithoutAsking(t *testing.T) {
	t.Parallel()
	b, p := hundred()
	found, other := p.Account(), p.Account()
	found.Force(150)
	wantUsed(t, b, 150)
	wantExhausted(t, other.Resize(1), budget.ExhaustedError{Want: 1, Free: 0, Used: 150, Limit: 100})
	resize(t, found, 120) // Less is always possible, also when it is still too much.
	wantExhausted(t, found.Resize(121), budget.ExhaustedError{Want: 1, Free: 0, Used: 120, Limit: 100})
	resize(t, found, 90)
	resize(t, other, 10)
	wantUsed(t, b, 100)
}

func TestThePartsAreObserved(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	var seen []int64
	p, other := b.Part(func(used int64) { seen = append(seen, used) }), b.Part(ignore).Account()
	first, second := p.Account(), p.Account()
	resize(t, first, 10)
	resize(t, other, 50)
	resize(t, second, 20)
	resize(t, second, 20)
	wantExhausted(t, second.Resize(200), budget.ExhaustedError{Want: 180, Free: 20, Used: 80, Limit: 100})
	second.Force(90)
	first.Close()
	first.Close()
	if diff := cmp.Diff([]int64{10, 30, 100, 90}, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestRoomWakesTheWaiting(t *testing.T) {
	t.Parallel()
	_, p := hundred()
	holder := p.Account()
	resize(t, holder, 100)
	var told []string
	wait := func(name string, n int64) *budget.Account {
		a := p.Account()
		a.WhenRoom(n, func() { told = append(told, name) })
		return a
	}
	wantReported := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		told = nil
	}
	wait("large", 80)
	wait("medium", 30)
	wait("small", 5)
	gone := wait("gone", 1)
	gone.Close()
	wantReported()
	resize(t, holder, 96)
	wantReported()
	resize(t, holder, 68) // 32 are free, of which the first that fits would take 30.
	wantReported("medium")
	resize(t, holder, 67)
	wantReported("small") // Since nobody has taken anything.
	holder.Close()
	wantReported("large")
	wait("lucky", 100)
	wantReported("lucky") // There is room already.
	gone.WhenRoom(1, func() { told = append(told, "closed") })
	wantReported()
}

func TestOneRetryTakesThePlaceOfTheOther(t *testing.T) {
	t.Parallel()
	_, p := hundred()
	holder, a := p.Account(), p.Account()
	resize(t, holder, 100)
	told := ""
	a.WhenRoom(1, func() { told += "first " })
	a.WhenRoom(2, func() { told += "second " })
	resize(t, holder, 99)
	resize(t, holder, 98)
	holder.Close()
	wantReported(t, "second ", told)
}

// TestWaitingOnKeepsThePlaceInLine, also for another amount. A waiter that was called begins again.
func TestWaitingOnKeepsThePlaceInLine(t *testing.T) {
	t.Parallel()
	_, p := hundred()
	holder, first, second := p.Account(), p.Account(), p.Account()
	resize(t, holder, 100)
	told := ""
	firstWaits := func(n int64) { first.WhenRoom(n, func() { told += "first " }) }
	secondWaits := func(n int64) { second.WhenRoom(n, func() { told += "second " }) }
	firstWaits(50)
	secondWaits(40)
	firstWaits(40)
	resize(t, holder, 60)
	wantReported(t, "first ", told)
	resize(t, holder, 100) // Somebody else was faster.
	firstWaits(40)
	resize(t, holder, 60)
	wantReported(t, "first second ", told)
}

// TestWhoIsNewWaitsForTheShareOfTheNew, and not for room that is refused to it.
func TestWhoIsNewWaitsForTheShareOfTheNew(t *testing.T) {
	t.Parallel()
	_, p := hundred()
	holder, newcomer, grown := p.Account(), p.Account(), p.Account()
	resize(t, holder, 90)
	told := ""
	newcomer.WhenOpen(10, func() { told += "newcomer " })
	grown.WhenRoom(20, func() { told += "grown " })
	resize(t, holder, 80)
	resize(t, holder, 66)
	wantReported(t, "grown ", told)
	resize(t, holder, 65)
	wantReported(t, "grown newcomer ", told)
	if err := newcomer.Open(10); err != nil {
		t.Errorf("Open = %v, want what was told", err)
	}
}

// TestErrorNamesTheRemedy, and what is free for the holder that asks: a new one may not have all.
func TestErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	const remedy = "; delete pods with large volumes, or raise the memory limit of the driver's container (or --volume-memory, " +
		"where it is set)"
	tests := map[string]struct {
		grow func(*budget.Account, int64) error
		want string
	}{
		"a live one": {(*budget.Account).Resize, "the node's volumes have no room left: 14.0 MiB more are needed, 13.4 MiB of " +
			"45.0 MiB are free" + remedy},
		"a new one": {(*budget.Account).Open, "the node's volumes have no room left for a new one: 14.0 MiB more are needed, " +
			"2.2 MiB are free; new volumes may use three quarters of the 45.0 MiB, and 31.6 MiB are used: the rest is for " +
			"changes of live volumes" + remedy},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := budget.New(45 * mebi).Part(func(int64) {})
			p.Account().Force(316 * mebi / 10)
			err := tt.grow(p.Account(), 14*mebi)
			if err == nil || err.Error() != tt.want {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
}

// TestSumIsExact has many holders do what they like. At every moment the sum is within the limit; in the end it is that of
// the accounts, which is none when all are closed.
func TestSumIsExact(t *testing.T) {
	t.Parallel()
	const limit, holders, steps = 1000, 16, 2000
	b := budget.New(limit)
	var lastSeen int64 // Only written under the budget's lock.
	p := b.Part(func(used int64) {
		if used < 0 || used > limit {
			t.Errorf("the part uses %d of %d", used, limit)
		}
		lastSeen = used
	})
	accounts := make([]*budget.Account, holders)
	var wg sync.WaitGroup
	for i := range accounts {
		a := p.Account()
		accounts[i] = a
		random := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			size := int64(0) // As the holder knows it.
			for range steps {
				n := random.Int64N(limit / 4)
				change := a.Resize
				if random.IntN(4) == 0 {
					change = a.Open
				}
				if err := change(n); err == nil {
					size = n
				} else {
					a.WhenRoom(n, func() { _ = b.Used() })
				}
				if got := a.Size(); got != size {
					t.Errorf("Size() = %d, want %d", got, size)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, a := range accounts {
		sum += a.Size()
	}
	wantUsed(t, b, sum)
	for _, a := range accounts {
		a.Close()
	}
	wantUsed(t, b, 0)
	if lastSeen != 0 {
		t.Errorf("the observer was last told %d, want 0", lastSeen)
	}
}
