package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// How much there is at most.
const (
	mostVolumes = 60
	mostPods    = 24
)

// tokenLife is longer than any run: that tokens expire is for other tests.
const tokenLife = 24 * 60 * 60

// How often the driver checks access again, and how long it takes at most to notice a lost right: it has
// to be denied for as long again.
const (
	recheck     = 3 * time.Second
	noticeAfter = 12 * time.Second
)

// run is one run of the test. The operator, the test's own goroutine, does things and changes the model; readers compare
// it with what they see.
type run struct {
	*model

	t     *testing.T
	seed  uint64
	rand  *rand.Rand // The operator's.
	bench *fixture.Fixture
	flag  string // Of the driver: whether volumes share their files.
	link  *network.Link
	log   *journal
	away  string // The namespace that is not the pods'.
	owned bool   // There are users other than root.

	resting sync.RWMutex // Held by the operator at a rest, and for reading by readers at work.
	failed  atomic.Bool
	reads   atomic.Int64
	hasty   atomic.Int64

	// Written by the operator, which may read them without the lock.
	conditions      sync.Mutex
	driverUp, apiUp bool
	linkIs          string // Empty for well.
	upsetAt         time.Time
	isUpset         bool // Something has happened since the last rest that the driver may need time for.

	// Of the operator.
	sinceRest int // Steps.
	restAfter int
	names     int // Makes names differ.
	rests     int
	shared    int   // How many volumes had the files of another one at a rest, at most.
	logged    int64 // How much of the driver's log was looked at.
	baseline  usage
}

func newRun(t *testing.T, seed uint64, flag string) *run {
	t.Helper()
	r := &run{
		t: t, flag: flag, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), log: newJournal(t, seed), driverUp: true, apiUp: true,
		owned: hasUsers(t), bench: fixture.NewBare(t), restAfter: 40,
	}
	r.model = newModel(r.bench.Namespace)
	r.away = r.home + "-away"
	expect.NoError(t, r.bench.Cluster.CreateNamespace(t.Context(), r.away))
	r.link = network.New(t, r.bench.Cluster.AdminConfig().Host)
	r.makeAccess()
	r.makeObjects()
	r.bench.Use(environment.NodeThrough(t, way{r}, "--recheck-interval="+recheck.String(), "--publish-timeout=300ms",
		"--http-endpoint="+r.bench.HTTP, flag))
	r.bench.Node.UseTokens(r.podToken)
	baseline, err := r.usage()
	expect.NoError(t, err)
	r.baseline = baseline
	return r
}

// hasUsers reports whether there are users other than root where the tests run.
func hasUsers(t *testing.T) bool {
	t.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	expect.NoError(t, err)
	return strings.Contains(string(ids), "4294967295")
}

// podToken is a token for longer than a kubelet asks for.
func (r *run) podToken(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error) {
	life := int64(tokenLife)
	return r.bench.Cluster.Token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &life,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	})
}

// way leads over the run's link with a token of the driver's that lasts.
type way struct{ *run }

// Kubeconfig is [environment.Way].
func (w way) Kubeconfig(from, to string) error {
	if err := w.link.Kubeconfig(from, to); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(to)
	if err != nil {
		return err
	}
	life := int64(tokenLife)
	token, err := w.bench.Cluster.Token(w.t.Context(), environment.DriverNamespace, environment.DriverAccount,
		authenticationv1.TokenRequestSpec{ExpirationSeconds: &life})
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Token
	}
	return clientcmd.WriteToFile(*config, to)
}

// failf fails the test. The first failure prints how to come by it again.
func (r *run) failf(format string, args ...any) {
	r.t.Helper()
	text := fmt.Sprintf(format, args...)
	r.log.note("FAILED: %s", text)
	if r.failed.Swap(true) {
		r.t.Error(text)
		return
	}
	r.t.Errorf("%s\nseed: LIVECONFIG_SEED=%d\nall that was done is in %s, the driver's log in %s; it ends with:\n%s",
		text, r.seed, r.log.path, r.keepLog(), process.Tail(r.log.path, 4000))
}

func (r *run) hasFailed() bool { return r.failed.Load() || r.t.Failed() }

// keepLog copies the driver's log to where it outlives the test.
func (r *run) keepLog() string {
	path := strings.TrimSuffix(r.log.path, ".log") + "-driver.log"
	text, err := os.ReadFile(r.bench.Node.LogFile())
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return err.Error()
	}
	return path
}

// finish logs what the run has come to.
func (r *run) finish() {
	r.t.Attr("soak/steps", fmt.Sprint(r.log.steps.Load()))
	r.t.Attr("soak/rests", fmt.Sprint(r.rests))
	r.t.Attr("soak/volumes-that-share", fmt.Sprint(r.shared))
	r.t.Attr("soak/readings", fmt.Sprint(r.reads.Load()))
	r.t.Attr("soak/hasty-readings", fmt.Sprint(r.hasty.Load()))
	for name, n := range r.log.count { // Nobody else is at work any more.
		r.t.Attr("soak/"+strings.ReplaceAll(name, " ", "-"), fmt.Sprint(n))
	}
	r.log.close(r.hasFailed())
}

// try asks the API server until it does something, which may take a moment after it was started.
func (r *run) try(what string, do func(ctx context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = do(ctx); err == nil {
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
	r.t.Fatalf("%s: %v (LIVECONFIG_SEED=%d)", what, err, r.seed)
}

// unless returns the error if it is not of the kind that was done by an earlier try.
func unless(isDone func(error) bool, err error) error {
	if isDone(err) {
		return nil
	}
	return err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// until is how long something takes until there is no error, or the time is over.
func until(within time.Duration, check func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // What is waited for has no event.
	}
}

// journal keeps what was done.
type journal struct {
	path  string
	begin time.Time
	steps atomic.Int64

	mu    sync.Mutex // Guards the fields below.
	file  *os.File
	count map[string]int
}

func newJournal(t *testing.T, seed uint64) *journal {
	t.Helper()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	dir := filepath.Join(repo, "bin", "test")
	expect.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, fmt.Sprintf("soak-%d%s.log", seed, filepath.Base(t.Name())))
	file, err := os.Create(path)
	expect.NoError(t, err)
	t.Logf("LIVECONFIG_SEED=%d repeats this; what is done is written to %s", seed, path)
	return &journal{path: path, begin: time.Now(), file: file, count: map[string]int{}}
}

// step notes an operation.
func (j *journal) step(name string) {
	j.steps.Add(1)
	j.mu.Lock()
	j.count[name]++
	j.mu.Unlock()
	j.note("%s", name)
}

func (j *journal) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f %s\n", time.Since(j.begin).Seconds(), fmt.Sprintf(format, args...))
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.file.WriteString(line)
}

// close removes the file of a run without failures.
func (j *journal) close(keep bool) { //nolint:revive // Whether it failed is all that is known.
	_ = j.file.Close()
	if !keep {
		_ = os.Remove(j.path)
	}
}
