package release

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/kubeletport"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// How long things are done: a moment in a run of all tests, half an hour where there is time.
const (
	usualSeconds = 40
	soakSeconds  = 1800
)

const driverNamespace = "liveconfig-system"

// annotation is the settings of a release.
type annotation struct {
	steps, onFailure, group string
	pause, watch            time.Duration
	isUnproven              bool // Nobody asks the drivers.
	isBroken                bool
}

func (a annotation) String() string {
	evidence := "files"
	if a.isUnproven {
		evidence = "none"
	}
	group := ""
	if a.group != "" {
		group = ", group: " + a.group
	}
	if a.isBroken {
		group += ", step: [1]"
	}
	return fmt.Sprintf("{steps: %s, pause: %s, watch: %s, onFailure: %s, evidence: %s%s}", a.steps, a.pause, a.watch, a.onFailure, evidence, group)
}

// survival is a long run.
type survival struct {
	*site

	seed     uint64
	random   *rand.Rand // Of the order of events.
	loads    []*workload
	machines []*machine
	link     *network.Link // Between the controllers and the API server.
	running  []*process.Process
	heals    []heal
	did      []string
	counts   map[string]int
	isAway   bool // The API server is.
	phase    int  // How many events are left of a time, in which connections are broken or not.
	isSteady bool
	persons  sync.WaitGroup
	plugin   string
	admin    string
}

// heal ends something.
type heal struct {
	due  time.Time
	what string
	do   func()
}

// TestReleasesSurviveAnything does whatever can happen to releases at random, while objects are edited, also with edits that
// programs do not work with. LIVECONFIG_SEED repeats the order of what is done, as far as the timing of processes lets it be
// repeated, and LIVECONFIG_SOAK_TIME says how long to go on, as in 10m.
//
// All the time, the files of pods have what was stable, or was exposed to them, and none has half of a group. Nothing becomes
// stable that pods that were Ready did not have in their files for the time of a step, unless a person or the annotation says
// so. Every now and then everything heals: then each pod has what the stable copies say, and in the end a good edit.
func TestReleasesSurviveAnything(t *testing.T) { // It is alone on the cluster, whose API server goes away.
	seed := soak.Asked(t, "LIVECONFIG_SEED", rand.Uint64(), func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
	lasts := soak.Asked(t, "LIVECONFIG_SOAK_TIME", time.Duration(soak.Rounds(usualSeconds, soakSeconds))*time.Second, time.ParseDuration)
	t.Logf("LIVECONFIG_SEED=%d", seed)
	s := newSurvival(t, seed)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer func() { // Also when the test has failed.
		stop()
		watching.Wait()
		s.judge()
		t.Logf("%d events: %v", len(s.did), s.counts)
	}()
	for _, l := range s.loads {
		l.followAll(ctx, &watching)
	}
	watching.Go(func() { s.observe(ctx) })
	const between = 90 * time.Second
	rest := time.Now().Add(between)
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); {
		s.step()
		if time.Now().After(rest) {
			s.rest()
			rest = time.Now().Add(between)
		}
	}
	s.rest()
	s.converge()
}

func dataOf(key string) func(number int) map[string]string {
	return func(number int) map[string]string {
		return map[string]string{key: environment.Marked(strconv.Itoa(number))}
	}
}

func newSurvival(t *testing.T, seed uint64) *survival {
	t.Helper()
	b := kit.NewBare(t)
	b.AllowSecrets("default")
	s := &survival{
		site: &site{Fixture: b}, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{},
		plugin: environment.Plugin(t), admin: filepath.Join(t.TempDir(), "kubeconfig"),
	}
	expect.NoError(t, s.Cluster.WriteAdminKubeconfig(s.admin))
	s.addControllers(t)
	port := kubeletport.Open(t, s.Cluster, driverNamespace)
	for _, name := range []string{"soak-a", "soak-b"} {
		m := &machine{name: name, link: network.New(t, s.Cluster.AdminConfig().Host)}
		address := kit.FreeAddress(t)
		m.Node = environment.NodeThrough(t, m.link, "--node-id="+name, "--http-endpoint="+address)
		m.UseTokens(s.Cluster.PodToken)
		port.Add(t, name, address)
		s.machines = append(s.machines, m)
	}
	s.loads = []*workload{
		s.load("solo", "{configMap: {name: solo}}", annotation{steps: "[1]", pause: 2 * time.Second, onFailure: "revert"},
			&copyHistory{name: "solo", file: "s", data: dataOf("s")}),
		s.load("team", "{configMap: {name: web}}, {secret: {name: tls}}",
			annotation{steps: "[1, 50%]", pause: 1500 * time.Millisecond, onFailure: "revert", group: "app"},
			&copyHistory{name: "web", file: "a", data: dataOf("a")}, &copyHistory{name: tlsName, isSecret: true, file: "b", data: dataOf("b")}),
		s.load("cool", "{secret: {name: cool}}", annotation{steps: "[50%]", pause: time.Second, watch: time.Second, onFailure: "freeze"},
			&copyHistory{name: "cool", isSecret: true, file: "c", data: dataOf("c")}),
	}
	t.Cleanup(s.clear) // Before the nodes end.
	s.startControllers()
	for _, l := range s.loads {
		for _, c := range l.copies {
			l.evidence[c].rule(l.settings.needed())
			expect.NoError(t, s.put(t.Context(), l, c))
		}
		s.eventually(func() error { return l.haveAll() })
		for i := range 5 {
			l.startPod(t.Context(), s.machines[i%len(s.machines)])
		}
	}
	return s
}

// needed is how long a content must have been seen.
func (a annotation) needed() time.Duration {
	if a.isUnproven || a.steps == "[]" {
		return 0
	}
	return a.pause
}

func (s *survival) load(name, sources string, settings annotation, copies ...*copyHistory) *workload {
	l := &workload{
		oracle: newOracle(s.site, copies...), name: name, attributes: map[string]string{"sources": "[" + sources + "]"},
		evidence: map[*copyHistory]*evidence{}, settings: settings, tuples: map[tuple]string{},
	}
	for i, c := range copies {
		c.newest, c.beside = 1, slices.Concat(copies[:i], copies[i+1:])
		l.evidence[c] = newEvidence()
	}
	return l
}

// followAll records the states of the copies until ctx ends.
func (l *workload) followAll(ctx context.Context, wg *sync.WaitGroup) {
	for _, c := range l.copies {
		version, err := l.list(ctx, c, metav1.ListOptions{})
		expect.NoError(l.T, err)
		wg.Go(func() { l.follow(ctx, c, version) })
	}
}

func (l *workload) haveAll() error {
	for _, c := range l.copies {
		if _, err := l.stateOf(l.T.Context(), c); err != nil {
			return err
		}
	}
	return nil
}

// sourceOf returns the number of the edit that an object has.
func (l *workload) sourceOf(ctx context.Context, c *copyHistory) (string, error) {
	if c.isSecret {
		o, err := l.Cluster.Client().CoreV1().Secrets(l.Namespace).Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return environment.Unmarked(string(o.Data[c.file])), nil
	}
	o, err := l.ConfigMaps().Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return environment.Unmarked(o.Data[c.file]), nil
}

// stateOf returns what the copy is now.
func (l *workload) stateOf(ctx context.Context, c *copyHistory) (copyState, error) {
	probe := c.unrecorded()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := l.list(ctx, probe, metav1.ListOptions{}); err != nil {
		return copyState{}, err
	}
	if probe.states[0].isAbsent {
		return copyState{}, fmt.Errorf("%s has no stable copy", c.name)
	}
	return probe.states[0], nil
}

// put writes the newest edit of an object with the settings of now.
func (s *survival) put(ctx context.Context, l *workload, c *copyHistory) error {
	meta := metav1.ObjectMeta{Name: c.name, Annotations: map[string]string{release.Annotation: l.settings.String()}}
	if c.isSecret {
		secrets := s.Cluster.Client().CoreV1().Secrets(s.Namespace)
		o := &corev1.Secret{ObjectMeta: meta, StringData: c.data(c.newest)}
		return kit.Put(ctx, secrets, o)
	}
	return kit.Put(ctx, s.ConfigMaps(), &corev1.ConfigMap{ObjectMeta: meta, Data: c.data(c.newest)})
}

// clear ends all pods and controllers.
func (s *survival) clear() {
	s.healAll()
	for i, p := range s.running {
		if p != nil {
			if err := p.Stop(20 * time.Second); err != nil {
				s.T.Errorf("stop controller %d: %v", i, err)
			}
		}
	}
	for _, l := range s.loads {
		for _, p := range l.all() {
			l.stopPod(p)
			<-p.ended
		}
	}
	s.persons.Wait()
	log, err := os.ReadFile(s.log)
	expect.NoError(s.T, err)
	if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("\npanic: ")) {
		s.T.Error("a controller has a race, or has panicked")
	}
	if s.T.Failed() {
		s.T.Logf("LIVECONFIG_SEED=%d: %s", s.seed, strings.Join(s.did, ", "))
		s.T.Logf("the controllers' log ends with:\n%s", process.Tail(s.log, 32<<10))
	}
}

// healAll ends everything that is wrong now.
func (s *survival) healAll() {
	slices.SortFunc(s.heals, func(a, b heal) int { return a.due.Compare(b.due) })
	// The API server comes first: a driver that starts needs it.
	slices.SortStableFunc(s.heals, func(a, b heal) int {
		return strings.Compare(strconv.FormatBool(a.what != apiServer), strconv.FormatBool(b.what != apiServer))
	})
	for _, h := range s.heals {
		h.do()
	}
	s.heals = nil
	s.restartEnded()
}
