package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// observe looks at the files of all pods until ctx ends.
func (s *survival) observe(ctx context.Context) {
	var noting sync.WaitGroup
	defer noting.Wait()
	slowness := rand.New(rand.NewPCG(s.seed, 1))
	queues := map[*workload]chan func(){}
	for _, l := range s.loads {
		queue := make(chan func(), 1<<16)
		defer close(queue)
		queues[l] = queue
		noting.Go(func() {
			for do := range queue {
				do()
			}
		})
	}
	for ctx.Err() == nil {
		for _, l := range s.loads {
			for _, p := range l.all() {
				if p.look(time.Duration(50+slowness.IntN(250)) * time.Millisecond) {
					l.remember(ctx, p, queues[l])
				}
			}
		}
		<-time.After(5 * time.Millisecond)
	}
}

// remember has what a pod has now be recorded, in its turn.
func (l *workload) remember(ctx context.Context, p *program, queue chan<- func()) {
	p.mu.Lock()
	seen := maps.Clone(p.seen)
	p.mu.Unlock()
	l.mu.Lock()
	pod := p.Pod
	if len(l.copies) > 1 && time.Now().After(l.lostUntil) && !slices.ContainsFunc(l.copies, (*copyHistory).wasMissing) {
		first, _ := strconv.Atoi(seen[l.copies[0]])
		second, _ := strconv.Atoi(seen[l.copies[1]])
		l.tuples[tuple{first, second}] = pod.Name
	}
	l.mu.Unlock()
	for _, c := range l.copies {
		value := seen[c]
		queue <- func() {
			if l.last(pod, c) != value {
				l.note(ctx, pod, c, value)
			}
		}
	}
}

// missingTime is how much later than the test a driver may learn that a copy is back.
const missingTime = 20 * time.Second

// wasMissing reports whether the copy is missing, or was missing a short while ago.
func (c *copyHistory) wasMissing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.states {
		if s.isAbsent && (i+1 == len(c.states) || time.Since(c.states[i+1].heard) < missingTime) {
			return true
		}
	}
	return false
}

// judge compares all that was seen with all that was written.
func (s *survival) judge() {
	s.T.Helper()
	for _, l := range s.loads {
		l.judge()
		for _, c := range l.copies {
			wrong, automatic := c.unproven(l.evidence[c])
			s.counts["promoted "+c.name] = automatic
			for _, text := range wrong {
				s.T.Errorf("%s: %s", c.name, text)
			}
		}
		for seen, pod := range l.tuples {
			one, two := l.copies[0], l.copies[1]
			for _, text := range []string{half(one, two, seen.first, seen.second), half(two, one, seen.second, seen.first)} {
				if text != "" {
					s.T.Errorf("pod %s has had half of a group: %s", pod, text)
				}
			}
		}
	}
}

// rest heals everything, and waits until each pod has what the stable copies say.
func (s *survival) rest() {
	s.T.Helper()
	s.healAll()
	s.persons.Wait()
	s.did = append(s.did, "rest")
	for _, l := range s.loads {
		if !l.settings.isBroken {
			continue
		}
		l.settings.isBroken = false
		s.annotate(l)
	}
	for _, l := range s.loads {
		environment.Eventually(s.T, 4*soon, func() error {
			s.restartEnded()
			return l.isAsTheCopiesSay(s.T.Context())
		})
	}
}

// isAsTheCopiesSay returns why a pod has something else than the stable copies say now.
func (l *workload) isAsTheCopiesSay(ctx context.Context) error {
	var errs []error
	for _, c := range l.copies {
		state, err := l.stateOf(ctx, c)
		if err != nil {
			return err
		}
		source, err := l.sourceOf(ctx, c)
		if err != nil {
			return err
		}
		for _, p := range l.all() {
			want := state.value
			if number, _ := strconv.Atoi(source); state.exposure.Shows(string(p.UID), digestOf(c.data(number))) {
				want = source
			}
			values, isRead := p.read()
			if got := values[c]; !isRead || got != want {
				errs = append(errs, fmt.Errorf("pod %s has %q of %s, want %s: %s %q", p.Name, got, c.name, want, state, state.exposure.Reason))
			}
		}
	}
	return errors.Join(errs...)
}

// converge has a good edit of each object reach all pods. Where a person has made a bad
// one stable, pods cannot prove that, and a person promotes it.
func (s *survival) converge() {
	s.T.Helper()
	for _, l := range s.loads {
		l.settings.group = map[bool]string{true: "app"}[len(l.copies) > 1]
		l.settings.steps, l.settings.isUnproven = "[1]", false
		for _, p := range l.all() {
			p.set(func() { p.isEvicted, p.sickTill = false, time.Time{} })
		}
		s.annotate(l)
		for _, c := range l.copies {
			s.makeEdit(l, c, false)
		}
	}
	for _, l := range s.loads {
		isHelped, isBadStable := false, false
		environment.Eventually(s.T, 6*soon, func() error {
			s.restartEnded()
			for _, c := range l.copies {
				state, err := l.stateOf(s.T.Context(), c)
				if err != nil {
					return err
				}
				stable, _ := strconv.Atoi(state.value)
				isStuck := state.exposure.State.IsFinal() || strings.HasPrefix(state.exposure.Reason, "no pod ")
				if isBadStable = isBadStable || isBad(stable); isBadStable && isStuck && !isHelped {
					isHelped = true
					s.steer(s.T.Context(), "promote", c)
				}
				if want := strconv.Itoa(c.newest); state.value != want || state.exposure.Digest != "" {
					return fmt.Errorf("the copy of %s has %s, want %s: %s %q", c.name, state.value, want, state, state.exposure.Reason)
				}
			}
			return l.isAsTheCopiesSay(s.T.Context())
		})
	}
}
