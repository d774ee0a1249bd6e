package volume

import (
	"context"
	"time"
)

// firstReadTimeout is how long a publish waits for the API server's first answer about its sources,
// for example on a network that drops all packets. It ends before the kubelet gives the call up:
// after that, nobody would see the reason.
const firstReadTimeout = 20 * time.Second

// await returns when the files of the volume can be planned. When the publish timeout ends, it
// returns what is in the way. The timeout begins with the API server's first answer, because it is
// for missing objects. While await waits, Events on the pod name what it waits for.
func (m *Manager) await(ctx context.Context, v *volume) error {
	answer := time.After(firstReadTimeout)
	var limit <-chan time.Time
	reported := ""
	for {
		err := m.checkSources(ctx, v)
		if err == nil || kindOf(err) == Invalid || kindOf(err) == Exhausted {
			return err
		}
		if limit == nil && !isFirstRead(err) {
			limit = time.After(m.cfg.PublishTimeout)
		}
		if news := fingerprint(err); news != reported && !isFirstRead(err) {
			reported = news
			m.event(v, ReasonWaiting, "waiting for a source: %v", err)
		}
		select {
		case <-v.projection().wake:
		case <-answer:
			if isFirstRead(err) {
				return err
			}
		case <-limit:
			return err
		case <-ctx.Done():
			return err
		case <-m.stopping:
			return errStopping
		}
	}
}

// checkSources returns nil if the files of a new volume can be planned.
func (m *Manager) checkSources(ctx context.Context, v *volume) error {
	return inTurn(ctx, m.working, v.record, func() error {
		h := v.lock()
		defer h.unlock()
		l, err := h.follow()
		if err != nil {
			return err
		}
		_, _, giveBack, err := h.plan(l)
		giveBack()
		return err
	})
}
