package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// killer kills the controller before and after each write that it sends: the first attempt is lost, and the next one reaches the
// API server, whose answer is lost.
type killer struct {
	*oracle

	mu      sync.Mutex // Guards the fields below.
	running *process.Process
	isSpent bool // The last write was lost, so the next one is not.
	lost    int
	done    int
	err     error
}

// before reports whether a write is lost.
func (k *killer) before(network.Request) (isLost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		return true // Of a controller that is dead.
	}
	if k.isSpent = !k.isSpent; k.isSpent {
		k.lost++
		k.killLocked()
		return true
	}
	return false
}

func (k *killer) after(network.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != nil {
		k.done++
		k.killLocked()
	}
}

func (k *killer) killLocked() {
	k.err = errors.Join(k.err, k.running.Kill())
	k.running = nil
}

// until starts the controller whenever it was killed, until something is so.
func (k *killer) until(check func() error) {
	k.T.Helper()
	expect.Eventually(k.T, 6*soon, func() error {
		k.mu.Lock()
		isDead := k.running == nil
		k.mu.Unlock()
		if isDead {
			k.start()
			k.mu.Lock()
			k.running = k.process
			k.mu.Unlock()
		}
		return check()
	})
}

// wantBoth waits until both copies have the content of an edit and a state.
func (k *killer) wantBoth(state release.State, value int) {
	k.T.Helper()
	k.until(func() error {
		web, err := k.ConfigMaps().Get(k.T.Context(), "web"+release.Suffix, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tls, err := k.Cluster.Client().CoreV1().Secrets(k.Namespace).Get(k.T.Context(), tlsName+release.Suffix, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range [][2]string{
			{web.Data["a"], web.Annotations[release.ExposureAnnotation]}, {string(tls.Data["b"]), tls.Annotations[release.ExposureAnnotation]},
		} {
			e, err := release.ParseExposure(c[1])
			if err != nil {
				return err
			}
			if got := environment.Unmarked(c[0]); e.State != state || got != strconv.Itoa(value) {
				return fmt.Errorf("a copy has the content %s and the state %s, want %d and %s", got, e.State, value, state)
			}
		}
		return nil
	})
}

// wantPods waits until so many pods have an edit of both objects.
func (k *killer) wantPods(number, want int) {
	k.T.Helper()
	k.until(func() error {
		got := 0
		for _, pod := range k.pods {
			if k.Holds(pod, "a", strconv.Itoa(number)) == nil && k.Holds(pod, "b", strconv.Itoa(number)) == nil {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%d pods have %d, want %d", got, number, want)
		}
		return nil
	})
}

// neverHalf looks at the pods until ctx ends: none has the edit of one object without that of the other.
func (k *killer) neverHalf(ctx context.Context) {
	for ctx.Err() == nil {
		for _, pod := range k.pods {
			before, err := os.Readlink(k.Path(pod, "..data"))
			dir := filepath.Join(filepath.Dir(k.Path(pod, "..data")), before)
			a, errA := os.ReadFile(filepath.Join(dir, "a"))
			b, errB := os.ReadFile(filepath.Join(dir, "b"))
			if errors.Join(err, errA, errB) == nil && string(a) != string(b) {
				k.T.Errorf("pod %s has %s of one object and %s of the other", pod.Name, environment.Unmarked(string(a)), environment.Unmarked(string(b)))
				return
			}
		}
		<-time.After(time.Millisecond)
	}
}

// TestKilledAtEachWrite: a controller that is killed before and after each write that it sends brings a good edit of a group to
// all pods, and takes a bad one back. Meanwhile no pod has what was neither stable nor exposed to it, or half of an edit.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	s := newIdleSite(t, environment.Controller(t))
	k := &killer{oracle: newOracle(s,
		&copyHistory{name: "web", file: "a", data: webData}, &copyHistory{name: tlsName, isSecret: true, file: "b", data: tlsData})}
	front := network.NewFront(t, s.Cluster)
	direct := s.kubeconfig
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, front.Kubeconfig(direct, s.kubeconfig))
	isObject := func(r network.Request) bool {
		return (r.Resource == "configmaps" || r.Resource == "secrets") && r.Namespace == s.Namespace
	}
	front.Set(network.Fault{Of: network.All(isObject, network.Verb("create", "update", "patch", "delete")), Before: k.before, After: k.after})
	t.Cleanup(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.running == nil {
			s.process = nil // It was killed.
		}
	})

	const annotation = "{group: app, steps: [2], pause: 300ms}"
	_, err := s.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: annotation}}, Data: webData(1),
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = s.Cluster.Client().CoreV1().Secrets(s.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tlsName, Annotations: map[string]string{release.Annotation: annotation}}, StringData: tlsData(1),
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	k.until(k.haveCopies)
	k.replicas(6, both)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	k.record(ctx, &watching)
	watching.Go(func() { k.neverHalf(ctx) })

	k.setWeb(2)
	k.setTLS(2)
	k.wantBoth("", 2) // A good edit.
	k.wantPods(2, 6)

	k.setWeb(3)
	k.setTLS(3)
	k.wantPods(3, 2)
	bad := k.shown("3")[0].Name
	k.setStatus(bad, corev1.ConditionFalse, 0)
	k.wantBoth(release.Reverted, 2) // A bad one.
	k.wantPods(2, 6)
	k.setStatus(bad, corev1.ConditionTrue, 0)

	k.setWeb(4)
	k.setTLS(4)
	k.wantBoth("", 4) // A newer one ends that.
	k.wantPods(4, 6)
	stop()
	watching.Wait()
	k.judge()
	k.mu.Lock()
	defer k.mu.Unlock()
	expect.NoError(t, k.err)
	// Two copies, and for each object two steps and the promotion, a step and the revert, two steps and the promotion.
	if least := 2 + 2*(3+2+3); k.lost < least || k.done < least {
		t.Errorf("the controller was killed before %d writes and after %d, want at least %d", k.lost, k.done, least)
	}
	t.Logf("the controller was killed before %d writes and after %d", k.lost, k.done)
}
