// Package sidecars measures objects by label and liveconfig-reload beside the containers that charts put into pods for the
// same: one that lists ConfigMaps into an emptyDir, and one that asks the program to read them.
//
// It does not know how any of them works.
package sidecars

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// Config says what to measure, and how often. All fields are required.
type Config struct {
	Site *site.Site
	// Pods are how many there are when memory and outages are looked at. Edits are timed with the first one alone.
	Pods int
	// Edits are made in each of the Runs.
	Runs, Edits int
	// Outage is how long the API server is away, and Rest how long all is left alone before its memory is looked at.
	Outage, Rest time.Duration
}

// The objects are about as large as dashboards.
const (
	namespace     = "bench-sidecars"
	selector      = "dashboard=1"
	sources       = `[{configMap: {labelSelector: {matchLabels: {dashboard: "1"}}}}]`
	objects       = 50
	objectBytes   = 20 << 10
	edited        = "edited"
	editedKey     = "payload"
	versionDigits = 10
)

const (
	// patience is more than any of them takes after an outage.
	patience = 10 * time.Minute
	// prompt is more than any of them takes when nothing is wrong, and attempts how often processes may begin too late to
	// see an edit.
	prompt       = 5 * time.Second
	attempts     = 10
	lookInterval = 20 * time.Millisecond
	// spread is what edits are apart, at random: as much as the poller's interval.
	spread = time.Second
)

// bench is one measurement.
type bench struct {
	cfg                  Config
	client               kubernetes.Interface
	oursLink, theirsLink *network.Link
	driver               *driver.Driver
	pods                 []*pod
	published            *corev1.Pod // The last one.
	version              int

	edits    [2][][]int64 // Ours and theirs, by run.
	outages  []outage
	resident map[string][]int64 // By process.
	share    int64              // Of the driver, for a pod.
}

// outage is one that was tried, and what each pod took then.
type outage struct {
	name         string
	ours, theirs []int64
}

// Measure returns what it has found, and what of it was to be reached.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	client, err := cfg.Site.Fast()
	if err != nil {
		return report.Section{}, nil, err
	}
	b := &bench{cfg: cfg, client: client, resident: map[string][]int64{}}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, step := range []func(context.Context) error{
		b.build, b.createObjects, b.connect, b.startPod, b.awaken, b.timeEdits, b.grow, b.lose, b.goAway,
	} {
		if err := step(ctx); err != nil {
			return report.Section{}, nil, err
		}
	}
	return b.section(), b.targets(), nil
}

func (b *bench) close() error {
	var errs []error
	for _, p := range b.pods {
		errs = append(errs, p.close())
	}
	if b.driver != nil {
		errs = append(errs, b.driver.Close())
	}
	for _, link := range []*network.Link{b.oursLink, b.theirsLink} {
		if link != nil {
			errs = append(errs, link.Close())
		}
	}
	return errors.Join(errs...)
}

func (b *bench) createObjects(ctx context.Context) error {
	if err := b.cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	for i := range objects {
		cm := b.object()
		if i > 0 {
			cm.Name = "object-" + strconv.Itoa(i)
			cm.Data = map[string]string{cm.Name: cm.Data[editedKey]}
		}
		if _, err := b.client.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// object is the edited one in its newest version.
func (b *bench) object() *corev1.ConfigMap {
	text := fmt.Sprintf("%0*d", versionDigits, b.version)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: edited, Labels: map[string]string{"dashboard": "1"}},
		Data:       map[string]string{editedKey: text + strings.Repeat("x", objectBytes-len(text))},
	}
}

// edit makes an edit and returns how long it took until the programs of each pod had read it.
func (b *bench) edit(ctx context.Context, within time.Duration) (ours, theirs []int64, err error) {
	b.version++
	var ofOurs, ofTheirs []<-chan time.Time
	for _, p := range b.pods {
		ofOurs = append(ofOurs, p.ours.expect(b.version))
		ofTheirs = append(ofTheirs, p.theirs.expect(b.version))
	}
	sent := time.Now()
	if _, err := b.client.CoreV1().ConfigMaps(namespace).Update(ctx, b.object(), metav1.UpdateOptions{}); err != nil {
		return nil, nil, err
	}
	if ours, err = awaitAll(ctx, sent, ofOurs, within); err != nil {
		return nil, nil, fmt.Errorf("liveconfig-reload of pod %w", err)
	}
	if theirs, err = awaitAll(ctx, sent, ofTheirs, within); err != nil {
		return nil, nil, fmt.Errorf("sidecars of pod %w", err)
	}
	return ours, theirs, nil
}

// awaitAll returns how long each took. An error begins with the number of the pod.
func awaitAll(ctx context.Context, sent time.Time, all []<-chan time.Time, within time.Duration) ([]int64, error) {
	took := make([]int64, 0, len(all))
	for i, seen := range all {
		at, err := await(ctx, seen, within)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
		took = append(took, at.Sub(sent).Nanoseconds())
	}
	return took, nil
}

// awaken makes edits until all processes follow them: none of them takes what is there at its start for a change.
func (b *bench) awaken(ctx context.Context) (err error) {
	for range attempts {
		if _, _, err = b.edit(ctx, prompt); err == nil {
			return nil
		}
	}
	return err
}

func (b *bench) timeEdits(ctx context.Context) error {
	for range b.cfg.Runs {
		var runs [2][]int64
		for range b.cfg.Edits {
			if err := site.Rest(ctx, rand.N(spread)); err != nil { //nolint:gosec // No secret.
				return err
			}
			ours, theirs, err := b.edit(ctx, patience)
			if err != nil {
				return err
			}
			runs[0], runs[1] = append(runs[0], ours...), append(runs[1], theirs...)
		}
		b.edits[0], b.edits[1] = append(b.edits[0], runs[0]), append(b.edits[1], runs[1])
	}
	return nil
}

// grow starts the other pods and looks at the memory of all, after an edit and a rest.
func (b *bench) grow(ctx context.Context) error {
	for len(b.pods) < b.cfg.Pods {
		if err := b.startPod(ctx); err != nil {
			return err
		}
	}
	if err := b.awaken(ctx); err != nil {
		return err
	}
	if err := site.Rest(ctx, b.cfg.Rest); err != nil {
		return err
	}
	return b.look()
}

// goAway takes the API server away from all for some time. The edit is made when it is back.
func (b *bench) goAway(ctx context.Context) error {
	if err := errors.Join(b.oursLink.Cut(), b.theirsLink.Cut()); err != nil {
		return err
	}
	if err := site.Rest(ctx, b.cfg.Outage); err != nil {
		return err
	}
	if err := errors.Join(b.oursLink.Heal(), b.theirsLink.Heal()); err != nil {
		return err
	}
	return b.try(ctx, fmt.Sprintf("the API server was away for %s, and is back", b.cfg.Outage))
}

// lose has open connections deliver nothing any more. The edit is made at once.
func (b *bench) lose(ctx context.Context) error {
	b.oursLink.Lose()
	b.theirsLink.Lose()
	return b.try(ctx, "open connections deliver nothing any more, without a word")
}

func (b *bench) try(ctx context.Context, name string) error {
	ours, theirs, err := b.edit(ctx, patience)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.outages = append(b.outages, outage{name, ours, theirs})
	b.cfg.Site.Say("%s: an edit took %s with liveconfig, %s with sidecars", name,
		report.Latencies("", "", [][]int64{ours}).Typical(), report.Latencies("", "", [][]int64{theirs}).Typical())
	return nil
}
