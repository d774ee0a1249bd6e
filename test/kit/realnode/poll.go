package realnode

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/kit/pace"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// pollInterval is short because a test waits.
const pollInterval = 50 * time.Millisecond

// poll calls check until it returns nil. It gives up with the last error when the process ends, when ctx does, or after the
// timeout.
func poll(ctx context.Context, timeout time.Duration, p *process.Process, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pace.Within(pollInterval), pace.Within(timeout), true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, err
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(err, last)
}
