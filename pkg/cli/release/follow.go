package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const interval = 300 * time.Millisecond

// follow prints a line for each news of an object, until nothing goes on. It looks again when the
// API server could not be asked.
func (o *status) follow(ctx context.Context, client kubernetes.Interface, argument string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last view
	var printed lines
	var problem error // Why the last look failed.
	for {
		views, err := o.views(ctx, client, []string{argument})
		switch {
		case ctx.Err() != nil: // The result of a look that was cut short means nothing.
		case err != nil && !session.MayPass(err):
			return err
		case err != nil:
			problem = err
			printed.remark(o.Session, "will look again: "+err.Error())
		default:
			last, problem, printed.lastRemark = views[0], nil, ""
			o.remarkUnasked(views)
			if err := printed.print(o.Out, last, time.Now()); err != nil {
				return err
			}
			if last.State == stateStable || last.State.hasFailed() {
				return verdict(views)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return o.late(argument, last, problem, ctx.Err())
		}
	}
}

// lines are what was printed of an object, and is not printed again.
type lines struct {
	last, lastRemark string
	step             clock
}

func (l *lines) remark(s *session.Session, text string) {
	if text == l.lastRemark {
		return
	}
	l.lastRemark = text
	s.Remark("%s", text)
}

// print prints an object if there is news of it. A step that has just begun is no news before its
// pods have had time to get the edit.
func (l *lines) print(to io.Writer, v view, now time.Time) error {
	text, isOld := bar(v), l.step.isOld(v, now)
	if isOld {
		text += waits(v)
	}
	if text == l.last || v.spreads() && !isOld {
		return nil
	}
	l.last = text
	_, err := fmt.Fprintln(to, text)
	return err
}

// late returns the error for an object that goes on, or that could not be looked at.
func (o *status) late(argument string, last view, problem, cause error) error {
	switch {
	case errors.Is(cause, context.Canceled) && last.Object == "":
		return fmt.Errorf("look at %s: interrupted", argument)
	case errors.Is(cause, context.Canceled):
		return fmt.Errorf("interrupted: %s is %s", last.Object, last.State)
	case last.Object == "" || problem != nil:
		return fmt.Errorf("look at %s for %s: %w", argument, o.timeout, cmp.Or(problem, cause))
	}
	return fmt.Errorf("%s is %s after %s", last.Object, last.State, o.timeout)
}

func bar(v view) string {
	const width = 20
	filled := 0
	if v.Pods > 0 {
		filled = v.Shown * width / v.Pods
	}
	parts := []string{v.Object, string(v.State)}
	if step := stepOf(v); step != "" {
		parts = append(parts, "step "+step)
	}
	parts = append(parts, "["+strings.Repeat("#", filled)+strings.Repeat(".", width-filled)+"]", podsOf(v)+" pods")
	if files := filesOf(v); files != "" {
		parts = append(parts, files+" files", readyOf(v)+" Ready")
	}
	if v.State == viewState(release.Progressing) {
		parts = append(parts, "for "+strconv.FormatFloat(v.Pause, 'g', -1, 64)+"s")
	}
	if v.Reason != "" {
		parts = append(parts, printing.PlainLine(v.Reason))
	}
	return strings.Join(parts, "  ")
}

const (
	// settleTime is how long pods have to get an edit before they are named.
	settleTime = 2 * time.Second
	// mostNamed is how many pods are named.
	mostNamed = 5
)

// clock is when a step was first seen, by this machine: the clock of the controller may differ.
type clock struct {
	of    string
	first time.Time
}

// isOld reports whether the pods of a step have had time to get the edit.
func (c *clock) isOld(v view, now time.Time) bool {
	if of := fmt.Sprint(v.Candidate, v.Step, v.Since); of != c.of {
		*c = clock{of, now}
	}
	return now.Sub(c.first) >= settleTime || now.Sub(v.Since) >= settleTime
}

// spreads reports whether pods of a step do not have the edit in their files yet.
func (v view) spreads() bool {
	return release.State(v.State).IsStep() && v.InFiles != nil && *v.InFiles < v.Asked
}

// waits returns lines that name the pods that hold a step up.
func waits(v view) string {
	var b strings.Builder
	for i, h := range v.WaitsFor {
		if i == mostNamed {
			fmt.Fprintf(&b, "\n  and for %d more", len(v.WaitsFor)-mostNamed)
			break
		}
		fmt.Fprintf(&b, "\n  waits for pod %s on node %s: %s", h.Pod, h.Node, printing.PlainLine(h.Reason))
	}
	return b.String()
}
