package scale

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

const (
	// interval is between edits: longer than one takes to reach the last node.
	interval = 300 * time.Millisecond
	// quiet is how long it is looked what a cluster does by itself.
	quiet = 4 * time.Second
	// settle is for what goes on after something was done.
	settle = time.Second
)

// edits is what edits of the shared object cost, and how long they took.
type edits struct {
	nodes   int
	watches float64 // That were open, with those outside of nodes.
	memory  float64 // Of the API server, after garbage was collected.
	// Of one edit: processor time beyond what goes on without, of the cluster and of the nodes.
	cluster  usage
	children time.Duration
	// Of one edit: events and bytes by the API server's count, and bytes that came to nodes.
	events, bytes, received float64
	requests                int // That nodes have made meanwhile.
	// Of each edit, from its answer: the first node to know, half of them, all but one in a hundred, and the last.
	first, median, p99, last []int64
}

// edit is one of them.
type edit struct {
	value          string
	sent, answered time.Time
}

// measureEditsAlone is measureEdits while nothing else is measured.
func (b *bench) measureEditsAlone(ctx context.Context, crew *children) (edits, error) {
	var e edits
	err := b.cfg.Alone(ctx, func(ctx context.Context) (err error) {
		e, err = b.measureEdits(ctx, crew)
		return err
	})
	return e, err
}

// measureEdits makes edits while nodes watch.
func (b *bench) measureEdits(ctx context.Context, crew *children) (edits, error) {
	e := edits{nodes: crew.next}
	before, err := b.ground.look(ctx)
	if err != nil {
		return e, err
	}
	e.watches, e.memory = before.watches, before.heap+before.stacks
	if _, err := crew.take(); err != nil {
		return e, err
	}
	made, err := b.makeEdits(ctx, crew, &e)
	if err != nil {
		return e, err
	}
	seen, err := crew.take()
	if err != nil {
		return e, err
	}
	after, err := b.ground.look(ctx)
	if err != nil {
		return e, err
	}
	n := float64(len(made))
	e.events, e.bytes = (after.events-before.events)/n, (after.bytes-before.bytes)/n
	e.received, e.requests = float64(seen.Received)/n, len(seen.Requests)
	if e.events < float64(e.nodes) {
		return e, fmt.Errorf("by its metrics the API server has sent %.1f events an edit to %d nodes", e.events, e.nodes)
	}
	return e, e.time(made, seen.Sightings)
}

// makeEdits also reads the clocks, right before the first and right after the last.
func (b *bench) makeEdits(ctx context.Context, crew *children, e *edits) ([]edit, error) {
	if err := rest(ctx, settle); err != nil {
		return nil, err
	}
	var marks [3]mark
	for i, work := range []func() error{
		func() error { return nil },
		func() error { return rest(ctx, quiet) },
	} {
		if err := work(); err != nil {
			return nil, err
		}
		if err := marks[i].read(b.ground, crew); err != nil {
			return nil, err
		}
	}
	var made []edit
	for range b.cfg.Edits {
		b.version++
		one := edit{value: strconv.Itoa(b.version), sent: time.Now()}
		if err := b.ground.put(ctx, fleet.Shared, one.value+"."); err != nil {
			return nil, err
		}
		one.answered = time.Now()
		made = append(made, one)
		if err := rest(ctx, interval); err != nil {
			return nil, err
		}
	}
	if err := marks[2].read(b.ground, crew); err != nil {
		return nil, err
	}
	idle, busy := marks[1].since(marks[0]), marks[2].since(marks[1])
	share := float64(busy.at) / float64(idle.at)
	net := func(busy, idle time.Duration) time.Duration {
		return (busy - time.Duration(float64(idle)*share)) / time.Duration(b.cfg.Edits)
	}
	e.cluster = usage{net(busy.apiServer, idle.apiServer), net(busy.etcd, idle.etcd)}
	e.children = net(busy.children, idle.children)
	return made, nil
}

// mark is what the clocks say at a moment.
type mark struct {
	usage

	at, children time.Duration
}

func (m *mark) read(g *ground, crew *children) error {
	var errs [2]error
	m.at = time.Duration(time.Now().UnixNano())
	m.usage, errs[0] = g.use()
	m.children, errs[1] = crew.work()
	return errors.Join(errs[:]...)
}

func (m mark) since(before mark) mark {
	return mark{usage: m.usage.since(before.usage), at: m.at - before.at, children: m.children - before.children}
}

// time finds out when the nodes knew. Each must have seen each edit: they are far apart.
func (e *edits) time(made []edit, seen []fleet.Sighting) error {
	at := map[string][]int64{}
	answered := map[string]time.Time{}
	for _, one := range made {
		answered[one.value] = one.answered
	}
	for _, s := range seen {
		value, _, _ := strings.Cut(s.Value, ".")
		at[value] = append(at[value], int64(s.At.Sub(answered[value])))
	}
	for _, one := range made {
		times := at[one.value]
		if len(times) != e.nodes {
			return fmt.Errorf("%d of %d nodes have seen an edit within %s", len(times), e.nodes, interval)
		}
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		e.first, e.median = append(e.first, times[0]), append(e.median, atPercent(times, 50))
		e.p99, e.last = append(e.p99, atPercent(times, 99)), append(e.last, times[len(times)-1])
	}
	return nil
}

func atPercent(sorted []int64, percent int) int64 {
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}

// rest waits for some time, or until the context ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// manyEvents is enough for a mean.
const manyEvents = 300

// measureEvents returns the cluster's processor time for an Event as the driver makes one of each volume that it has updated.
func (b *bench) measureEvents(ctx context.Context) (time.Duration, error) {
	if err := b.ground.furnish(ctx, fleet.Driver, 0, 1, 0); err != nil {
		return 0, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.ground.kubeconfigs(fleet.Driver), "0"))
	if err != nil {
		return 0, err
	}
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	before, err := b.ground.use()
	if err != nil {
		return 0, err
	}
	for i := range manyEvents {
		now := metav1.Now()
		_, err := client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d.0123456789abcdef", i)},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("web-%d", i), FieldPath: "spec.volumes{config}",
			},
			Reason: "Updated", Message: "Wrote 3 files of configmap/web that have changed.", Type: corev1.EventTypeNormal,
			Source: corev1.EventSource{Component: "csi.liveconfig.internal", Host: "node"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
	}
	after, err := b.ground.use()
	return after.since(before).sum() / manyEvents, err
}
