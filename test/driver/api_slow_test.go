package driver

import (
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// prompt is how long something takes at most that nothing delays, on a busy machine. It is less than the delays that it
// is distinguished from.
const prompt = 30 * time.Second

// TestBadSourcesDelayNoOther is fault 30: a fault of some objects, however long it lasts, does not delay others, be
// that in a volume that is there, in one that is published, or after a restart.
func TestBadSourcesDelayNoOther(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t, "--publish-timeout=1h")
	good := publishWatched(b, front, "good")
	var faults []network.Fault
	var waiting sync.WaitGroup
	for name, fault := range map[string]network.Fault{
		"silent":    {Delay: time.Hour},
		"forbidden": {Status: http.StatusForbidden},
		"broken":    {Status: http.StatusInternalServerError},
		"too-much":  {Status: http.StatusTooManyRequests, RetryAfter: time.Hour},
	} {
		set(b, name, "one")
		fault.Of = aboutMap(b, name)
		faults = append(faults, fault)
		front.Set(faults...)
		pod := b.Pod(name, map[string]string{"configMap": name})
		waiting.Go(func() {
			if err := b.TryPublish(t.Context(), pod); err == nil {
				t.Errorf("a volume of what is %s was published", pod.Name)
			}
		})
		environment.Eventually(t, fixture.Soon, func() error { return isAsked(front, b, name, 1) })
	}
	wantPrompt(b, good, "two")
	b.Kill()
	waiting.Wait()
	b.Start()
	wantPrompt(b, good, "three")
	front.Set()
}

// wantPrompt wants an update to arrive and a new volume to be published without delay.
func wantPrompt(b *fixture.Fixture, pod *corev1.Pod, value string) {
	b.T.Helper()
	began := time.Now()
	set(b, pod.Name, value)
	b.WantFile(pod, "n", value)
	publish(b, "new-"+value, "one")
	if took := time.Since(began); took > prompt {
		b.T.Errorf("an update and a publish took %s, want them prompt", took)
	}
}
