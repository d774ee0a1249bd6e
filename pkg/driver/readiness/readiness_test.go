package readiness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// answers returns a check of the installation that returns err, and another error if it may wait.
func answers(err error) func(context.Context) error {
	return func(ctx context.Context) error {
		if ctx.Err() == nil {
			return errors.New("the check may wait")
		}
		return err
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	of := func(kind csidriver.Kind) error {
		return &csidriver.Error{Name: "csi.test", Kind: kind, Err: errors.New("dial tcp 10.0.0.1:443: connection refused")}
	}
	tests := map[string]struct {
		recovering          bool
		state, installation error
		registration        error
		check, serves       string // How the answers begin; empty for ready.
	}{
		"all is well":    {},
		"it recovers":    {recovering: true, check: "the volumes of an earlier run", serves: "the volumes of an earlier run"},
		"no records":     {state: errors.New("no space"), check: "the state directory cannot", serves: "the state directory cannot"},
		"not installed":  {installation: of(csidriver.Missing), check: "the kubelet does not vouch", serves: "the kubelet does not vouch"},
		"not vouched":    {installation: of(csidriver.Unvouched), check: "the kubelet does not vouch", serves: "the kubelet does not vouch"},
		"not heard of":   {installation: of(csidriver.Unread), check: "whether the kubelet vouches for pods is not known"},
		"not registered": {registration: errors.New("the kubelet has not"), check: "the kubelet has not"},
		"something else": {installation: errors.New("odd"), check: "the CSIDriver object: odd", serves: "the CSIDriver object: odd"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(Config{
				Recovered: func() bool { return !tc.recovering }, CheckInstallation: answers(tc.installation),
				CheckRegistration: func() error { return tc.registration },
			})
			r.problem = tc.state
			for what, answer := range map[string]struct {
				got  error
				want string
			}{"check": {r.Check(), tc.check}, "serves": {r.CheckServing(), tc.serves}} {
				switch {
				case answer.want == "" && answer.got != nil, answer.want != "" && answer.got == nil:
					t.Errorf("%s() = %v, want %q", what, answer.got, answer.want)
				case answer.got != nil && (!strings.HasPrefix(answer.got.Error(), answer.want) || strings.Contains(answer.got.Error(), "10.0.0.1")):
					t.Errorf("%s() = %v, want %q and no address", what, answer.got, answer.want)
				}
			}
		})
	}
}

// TestStateIsTriedNowAndThen and not by each request, which must not wait for a disk.
func TestStateIsTriedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var full atomic.Bool
		r := New(Config{CheckLock: func() error { return nil }, CheckState: func() error {
			tries.Add(1)
			if full.Load() {
				return errors.New("no space")
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		for i, isFull := range []bool{true, false} {
			full.Store(isFull)
			<-time.After(stateInterval)
			synctest.Wait()
			for range 100 {
				if got := r.StateWritable(); got == isFull {
					t.Errorf("writable = %t, full = %t", got, isFull)
				}
			}
			if got := int(tries.Load()); got != i+2 {
				t.Errorf("tried %d times, want %d", got, i+2)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestADriverWithoutItsNodeEnds: another one has taken the state directory. Anything else is tried again.
func TestADriverWithoutItsNodeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := New(Config{CheckState: func() error { return nil }, CheckLock: func() error {
			tries++
			if tries < 3 {
				return errors.New("no space")
			}
			return fmt.Errorf("it was removed, and since then %w", state.ErrTaken)
		}})
		began := time.Now()
		err := r.Run(klog.NewContext(t.Context(), klog.Logger{}))
		if took := time.Since(began); !errors.Is(err, state.ErrTaken) || took != 2*stateInterval || r.StateWritable() {
			t.Errorf("run = %v after %s, writable = %t; want an end at the third try, and not writable before", err, took, r.StateWritable())
		}
	})
}
