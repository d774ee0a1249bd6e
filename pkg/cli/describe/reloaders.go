package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/reloaders"
)

// Reloader is a container of liveconfig-reload, and its last result.
type Reloader struct {
	Container string `json:"container"`
	// Volume is the one that it watches. Digest is that of its files, as the node of the pod
	// reports it, if the reloader has read them. Empty if they are not known.
	Volume string `json:"volume,omitempty"`
	Digest string `json:"digest,omitempty"`
	// FilesChanged means that the files were written after the reloader has read them.
	FilesChanged bool `json:"filesChanged,omitempty"`
	// Result is nil where the reloader did not answer, and NotAsked is why.
	Result   *reloaders.Status `json:"result,omitempty"`
	NotAsked string            `json:"notAsked,omitempty"`
}

// hasFailed reports whether the last reload failed.
func (r Reloader) hasFailed() bool { return r.Result != nil && r.Result.Failure != "" }

func (pod Pod) hasFailedReload() bool { return slices.ContainsFunc(pod.Reloaders, Reloader.hasFailed) }

// seat is the place of a reloader in a description.
type seat struct{ pod, reloader int }

// askReloaders asks the reloaders of the pods. Pods that are not ready are asked first: there are
// limits, and a reload that has failed makes its pod not ready.
func (d *report) askReloaders(ctx context.Context) {
	order := make([]int, len(d.Pods))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return readiness(d.observed.Running[a].Pod) - readiness(d.observed.Running[b].Pod)
	})
	var questions []reloaders.Question
	var seats []seat
	for _, i := range order {
		pod := d.observed.Running[i].Pod
		if isOver(pod) {
			continue
		}
		for _, r := range reloaders.In(&pod.Spec) {
			questions = append(questions, reloaders.Question{Pod: pod, Reloader: r})
			seats = append(seats, seat{i, len(d.Pods[i].Reloaders)})
			d.Pods[i].Reloaders = append(d.Pods[i].Reloaders, Reloader{Container: r.Container, Volume: r.Volume})
		}
	}
	if len(questions) == 0 {
		return
	}
	var unknown []unheard
	for i, answer := range d.asker.Ask(ctx, questions) {
		at := &d.Pods[seats[i].pod].Reloaders[seats[i].reloader]
		if answer.Err == nil {
			at.answered(answer.Status, d.Pods[seats[i].pod].Volumes)
			continue
		}
		at.NotAsked = answer.Err.Reason()
		unknown = addUnheard(unknown, questions[i], answer.Err)
	}
	for _, u := range unknown {
		d.lacks("the last result of container "+u.container+" of "+printing.Names(u.pods, "pod", "pods"), u.Reason(), u.Type)
	}
}

// readiness sorts pods: those that are not ready come first.
func readiness(pod *corev1.Pod) int {
	isReady := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
	if slices.ContainsFunc(pod.Status.Conditions, isReady) {
		return 1
	}
	return 0
}

// answered notes a result, and whether it is about the files that a volume has. The node's clock
// has both times.
func (r *Reloader) answered(result reloaders.Status, volumes []PodVolume) {
	r.Result = &result
	at := slices.IndexFunc(volumes, func(v PodVolume) bool { return v.Name == r.Volume })
	if at < 0 || result.ReadAt.IsZero() {
		return
	}
	if r.FilesChanged = volumes[at].ProjectedAt.After(result.ReadAt); !r.FilesChanged {
		r.Digest = volumes[at].Digest
	}
}

// unheard are pods whose reloaders have no result for one reason. The details and the command are
// those of the first.
type unheard struct {
	*reloaders.Unavailable

	container string
	pods      []string
}

func addUnheard(all []unheard, q reloaders.Question, why *reloaders.Unavailable) []unheard {
	isSame := func(u unheard) bool { return u.container == q.Container && u.Why == why.Why }
	at := slices.IndexFunc(all, isSame)
	if at < 0 {
		return append(all, unheard{why, q.Container, []string{q.Pod.Name}})
	}
	all[at].pods = append(all[at].pods, q.Pod.Name)
	return all
}

// reloads counts the reloaders of several pods: of these, not all are shown.
func (p *page) reloads(pods []Pod) {
	var failed, unknown, others int
	for _, pod := range pods {
		for _, r := range pod.Reloaders {
			switch {
			case r.hasFailed():
				failed++
			case r.Result == nil:
				unknown++
			default:
				others++
			}
		}
	}
	if len(pods) > 1 && failed+unknown+others > 0 {
		p.line(0, "Reloads: %d failed, %d not failed, %d not known", failed, others, unknown)
	}
}

func (p *page) reloader(r Reloader) {
	if r.Result == nil {
		p.line(2, "reload by %s: not known, see below", r.Container)
		return
	}
	s := r.Result
	newest := fmt.Sprintf("content %d", s.Content) + r.files()
	switch {
	case s.Failure != "" && s.Failed == s.Content:
		p.line(2, "reload by %s: failed%s: %s", r.Container, p.since(s.FailedSince), newest)
	case s.Failure != "":
		p.line(2, "reload by %s: failed%s: content %d; the newest is %s", r.Container, p.since(s.FailedSince), s.Failed,
			newest)
	case s.Content == 0:
		p.line(2, "reload by %s: it has not read the files yet", r.Container)
	case s.Content != s.Loaded:
		p.line(2, "reload by %s: the program is asked to read %s", r.Container, newest)
	case s.Successes == 0:
		p.line(2, "reload by %s: no change since its start, %s", r.Container, newest)
	default:
		p.line(2, "reload by %s: the program works with %s%s", r.Container, newest, p.since(s.LastSuccess))
	}
	if s.Failure != "" {
		p.line(3, "Why: %s", s.Failure)
		p.line(3, "Next: %s", p.next(s))
	}
}

// files names the files of the newest content.
func (r Reloader) files() string {
	var list []string
	if r.Volume != "" {
		list = append(list, "volume "+r.Volume)
	}
	switch {
	case r.FilesChanged:
		list = append(list, "whose files have changed since")
	case r.Digest != "":
		list = append(list, "digest "+r.Digest)
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func (p *page) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", for " + p.age(t)
}

// next returns what the reloader does after a failure.
func (p *page) next(s *reloaders.Status) string {
	again := fmt.Sprintf("content %d is tried again", s.Content)
	switch {
	case s.Failed != s.Content:
		return fmt.Sprintf("content %d is being tried", s.Content)
	case s.NextTry.IsZero():
		return again // By a version that does not report when.
	case s.NextTry.After(p.now):
		return again + " in " + shortly(s.NextTry.Sub(p.now))
	default:
		return again + " now"
	}
}

// shortly returns a time that is to pass. Other clocks, and other programs, have any time.
func shortly(d time.Duration) string {
	const most = time.Hour
	if d > most {
		return "more than an hour"
	}
	return fmt.Sprintf("%ds", int((d+time.Second-1)/time.Second))
}
