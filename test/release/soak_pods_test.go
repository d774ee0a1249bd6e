package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// machine is a node of a long run, with its driver.
type machine struct {
	*node.Node

	name  string
	link  *network.Link // Between the driver and the API server.
	state string        // What is wrong with the driver; empty for nothing.
}

// workload is pods with one volume, and the released objects in it.
type workload struct {
	*oracle

	name       string
	attributes map[string]string
	evidence   map[*copyHistory]*evidence
	settings   annotation

	mu       sync.Mutex // Guards the fields below.
	programs []*program
	made     int
	// lostUntil is until when a copy may be missing, which somebody has deleted: a new pod gets what the objects have then.
	lostUntil time.Time
	tuples    map[tuple]string // What pods have had, and one of them.
}

// tuple is the numbers of the edits of both objects of a group.
type tuple struct{ first, second int }

// isBad says of an edit that programs do not work with it.
func isBad(number int) bool { return number%4 == 0 }

// program is a pod with the program in it, which works unless it reads a bad edit. Its kubelet reports that.
type program struct {
	*corev1.Pod

	at     *machine
	load   *workload
	ended  chan struct{} // Closed when nothing of it is left.
	cancel context.CancelFunc

	mu       sync.Mutex // Guards the fields below.
	isReady  bool
	changed  time.Time // When isReady did.
	due      time.Time // When the program notices what it has read; zero for nothing new.
	sickTill time.Time // It is not Ready until then for a reason of its own.
	restarts int32
	crashed  time.Time
	isEvicted,
	isLeaving bool
	spans map[*copyHistory]*span
	seen  map[*copyHistory]string
	last  time.Time // When its files were looked at.
}

// startPod has a new pod run until it is stopped.
func (l *workload) startPod(ctx context.Context, at *machine) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(l.name, "-", l.made)},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", NodeName: at.name, Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
	kit.AddVolume(pod, kit.VolumeName, l.attributes)
	p := &program{
		Pod: pod, at: at, load: l, ended: make(chan struct{}), cancel: cancel,
		spans: map[*copyHistory]*span{}, seen: map[*copyHistory]string{},
	}
	l.programs = append(l.programs, p)
	go p.run(ctx)
}

// all returns the pods of now.
func (l *workload) all() []*program {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.programs)
}

// stopPod has a pod end. It returns at once.
func (l *workload) stopPod(p *program) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.programs = slices.DeleteFunc(slices.Clone(l.programs), func(other *program) bool { return other == p })
	p.mu.Lock()
	p.isLeaving = true
	p.mu.Unlock()
	p.cancel()
}

// attempt does something again and again until it is done, or ctx ends.
func attempt(ctx context.Context, do func(context.Context) error) {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := do(once)
		cancel()
		if err == nil {
			return
		}
		waitFor(ctx, 100*time.Millisecond)
	}
}

// run is what a kubelet does about a pod, until ctx ends: then the pod is deleted.
func (p *program) run(ctx context.Context) {
	defer close(p.ended)
	pods := p.load.Cluster.Client().CoreV1().Pods(p.load.Namespace)
	attempt(ctx, func(ctx context.Context) error {
		made, err := pods.Create(ctx, p.Pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = pods.Get(ctx, p.Name, metav1.GetOptions{})
		}
		if err == nil {
			p.load.mu.Lock()
			p.Pod = made
			p.load.mu.Unlock()
		}
		return err
	})
	attempt(ctx, func(ctx context.Context) error { return p.at.PublishAll(ctx, p.Pod) })
	p.set(func() { p.due = time.Now() })
	reported := ""
	repeat := time.Now().Add(10 * time.Second)
	for ctx.Err() == nil {
		if status := p.status(); status != reported {
			once, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := pods.Patch(once, p.Name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
			cancel()
			if err == nil {
				reported = status
			}
		}
		if time.Now().After(repeat) { // As kubelets do where requiresRepublish is set.
			once, cancel := context.WithTimeout(ctx, time.Second)
			_ = p.at.PublishAll(once, p.Pod)
			cancel()
			repeat = time.Now().Add(10 * time.Second)
		}
		waitFor(ctx, 20*time.Millisecond)
	}
	after := context.WithoutCancel(ctx)
	attempt(after, func(ctx context.Context) error {
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return err
	})
	attempt(after, func(ctx context.Context) error {
		err := p.at.UnpublishAll(ctx, p.Pod)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	})
}

func (p *program) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// status is what the kubelet reports.
func (p *program) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready, evicted := corev1.ConditionFalse, corev1.ConditionFalse
	if p.isReady {
		ready = corev1.ConditionTrue
	}
	if p.isEvicted {
		evicted = corev1.ConditionTrue
	}
	last := ""
	if p.restarts > 0 {
		at := p.crashed.UTC().Format(time.RFC3339)
		last = fmt.Sprintf(`, "lastState": {"terminated": {"exitCode": 1, "startedAt": %q, "finishedAt": %q}}`, at, at)
	}
	return fmt.Sprintf(`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": %q, "lastTransitionTime": %q},
		{"type": "DisruptionTarget", "status": %q}],
		"containerStatuses": [{"name": "app", "image": "app", "imageID": "app", "ready": true, "restartCount": %d%s}]}}`,
		ready, p.changed.UTC().Format(time.RFC3339), evicted, p.restarts, last)
}

// look reads the files of the pod as one, and has the program notice them. It reports whether they are something new.
func (p *program) look(slowness time.Duration) (isNew bool) {
	now := time.Now()
	values, isRead := p.read()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isRead || p.isLeaving {
		return false
	}
	bad := false
	for _, c := range p.load.copies {
		value := values[c]
		number, _ := strconv.Atoi(value)
		bad = bad || isBad(number)
		isNew = isNew || p.seen[c] != value
	}
	if isNew {
		p.due = now.Add(slowness)
	}
	if !p.due.IsZero() && !now.Before(p.due) || !p.sickTill.IsZero() {
		if isReady := !bad && now.After(p.sickTill); isReady != p.isReady || p.changed.IsZero() {
			p.isReady, p.changed = isReady, now
		}
		p.due = time.Time{}
		if now.After(p.sickTill) {
			p.sickTill = time.Time{}
		}
	}
	for _, c := range p.load.copies {
		p.proveLocked(c, values[c], now)
		p.seen[c] = values[c]
	}
	p.last = now
	return isNew
}

// proveLocked notes that the pod is Ready with a value. A span begins when the files were looked at before, and ends when they
// are something else: the doubt is the product's.
func (p *program) proveLocked(c *copyHistory, value string, now time.Time) {
	e := p.load.evidence[c]
	s, isSame := p.spans[c], p.seen[c] == value
	if s != nil {
		e.extend(s, now)
	}
	switch {
	case !p.isReady:
		delete(p.spans, c)
	case s == nil || !isSame:
		from := p.last
		if from.IsZero() {
			from = now
		}
		p.spans[c] = e.begin(value, from, now)
	}
}

// read returns the values in the files, all of one moment.
func (p *program) read() (values map[*copyHistory]string, isRead bool) {
	p.load.mu.Lock()
	dir := p.at.Target(p.Pod, kit.VolumeName)
	isMade := p.UID != ""
	p.load.mu.Unlock()
	if !isMade {
		return nil, false
	}
	before, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		return nil, false // It is not published yet, or not any more.
	}
	values = map[*copyHistory]string{}
	for _, c := range p.load.copies {
		text, err := os.ReadFile(filepath.Join(dir, before, c.file))
		if err != nil {
			if after, errAfter := os.Readlink(filepath.Join(dir, "..data")); errAfter != nil || after != before {
				return nil, false // It changes at this moment.
			}
			text = []byte(err.Error())
		}
		values[c] = environment.Unmarked(string(text))
	}
	return values, true
}
