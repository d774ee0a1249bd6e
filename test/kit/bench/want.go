package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/kubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
)

// Heard returns the error that the driver answered a call with. The test fails if it tells a secret.
func (b *Bench) Heard(err error) error {
	b.T.Helper()
	if leak := lab.Leak([]byte(fmt.Sprint(err))); leak != nil {
		b.T.Errorf("the driver's answer: %v", leak)
	}
	return err
}

// wantNoLeakInEvents looks at all Events that were ever written about the bench's pods.
func (b *Bench) wantNoLeakInEvents() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.T.Context()), Soon)
	defer cancel()
	events, err := b.Cluster.Client().CoreV1().Events(b.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.T.Error(err)
		return
	}
	text, err := json.Marshal(events)
	if err != nil {
		b.T.Error(err)
	}
	if err := lab.Leak(text); err != nil {
		b.T.Errorf("Events: %v", err)
	}
}

// Holds returns an error unless a file of the pod's volume holds the text.
func (b *Bench) Holds(pod *corev1.Pod, file, want string) error {
	return b.VolumeHolds(pod, VolumeName, file, want)
}

// VolumeHolds is Holds for a volume of another name.
func (b *Bench) VolumeHolds(pod *corev1.Pod, volume, file, want string) error {
	path := filepath.Join(b.Node.Target(pod, volume), file)
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if text := lab.Unmarked(string(got)); text != want {
		return fmt.Errorf("%s holds %q, want %q", path, text, want)
	}
	return nil
}

// WantFile waits until a file of the pod's volume holds the text.
func (b *Bench) WantFile(pod *corev1.Pod, file, want string) {
	b.T.Helper()
	lab.Eventually(b.T, Soon, func() error { return b.Holds(pod, file, want) })
}

// WantNoFile waits until the pod's volume has no such name.
func (b *Bench) WantNoFile(pod *corev1.Pod, file string) {
	b.T.Helper()
	lab.Eventually(b.T, Soon, func() error { return kubelet.Gone(b.Path(pod, file)) })
}

// Generation returns which directory ..data names: it changes with each write.
func (b *Bench) Generation(pod *corev1.Pod) string {
	b.T.Helper()
	link, err := os.Readlink(b.Path(pod, "..data"))
	if err != nil {
		b.T.Fatal(err)
	}
	return link
}

// WantEvent waits for an Event with the reason on the pod whose message holds the text. The driver takes its time with Events, and
// with asking again for what it was refused.
func (b *Bench) WantEvent(pod *corev1.Pod, reason, text string) {
	b.T.Helper()
	lab.Eventually(b.T, 3*Soon, func() error {
		events, err := b.objects.events(b.T.Context(), b.Node, pod, reason)
		if err != nil {
			return err
		}
		for _, message := range events {
			if strings.Contains(message, text) {
				return nil
			}
		}
		return fmt.Errorf("no Event %s with %q among %d", reason, text, len(events))
	})
}

// WantRefusal publishes the pod's volume and wants the code and the text.
func (b *Bench) WantRefusal(pod *corev1.Pod, code codes.Code, text string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	err := b.Heard(b.Node.Publish(ctx, pod, pod.Spec.Volumes[0]))
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		b.T.Errorf("publish gave %v, want %s with %q", err, code, text)
	}
}

// WantNothing wants no mount and no target directory for the pod's volume.
func (b *Bench) WantNothing(pod *corev1.Pod, when string) {
	b.T.Helper()
	target := b.Node.Target(pod, VolumeName)
	if mounts := lab.Mounts(b.T, target); len(mounts) > 0 {
		b.T.Errorf("%s: mounts at %s: %q", when, target, mounts)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		b.T.Errorf("%s: the target path is there (%v)", when, err)
	}
}

// WantMounts wants so many lines of the mount table below the kubelet's directory.
func (b *Bench) WantMounts(want int, when string) {
	b.T.Helper()
	if mounts := lab.Mounts(b.T, b.Node.KubeletDir()); len(mounts) != want {
		b.T.Errorf("%s: %d mounts, want %d:\n%s", when, len(mounts), want, strings.Join(mounts, ""))
	}
}

// Metric returns the value of a series of the driver's metrics; nothing if there is none.
func (b *Bench) Metric(series string) string {
	b.T.Helper()
	return SeriesOf(b.Get("/metrics"), series)
}

// Number returns the value of a series of the driver's metrics, and zero if there is none yet.
func (b *Bench) Number(series string) float64 {
	b.T.Helper()
	value, err := b.number(series)
	if err != nil {
		b.T.Fatal(err)
	}
	return value
}

func (b *Bench) number(series string) (float64, error) {
	metrics, err := b.Fetch("/metrics")
	if err != nil {
		return 0, err
	}
	text := SeriesOf(metrics, series)
	if text == "" {
		return 0, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("series %s: %w", series, err)
	}
	return value, nil
}

// WantNumber waits until a series of the driver's metrics has the value. A driver that has just been started may not serve
// them yet.
func (b *Bench) WantNumber(series string, want float64) {
	b.T.Helper()
	lab.Eventually(b.T, Soon, func() error {
		got, err := b.number(series)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %v, want %v", series, got, want)
		}
		return err
	})
}

// SeriesOf returns the value of a series in a text of metrics; nothing if there is none.
func SeriesOf(metrics, series string) string {
	for line := range strings.Lines(metrics) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == series {
			return value
		}
	}
	return ""
}

// Get returns the body that the driver's HTTP endpoint serves at a path.
func (b *Bench) Get(path string) string {
	b.T.Helper()
	body, err := b.Fetch(path)
	if err != nil {
		b.T.Fatal(err)
	}
	return body
}

// Fetch is Get for a driver that may be dead.
func (b *Bench) Fetch(path string) (string, error) {
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, "http://"+b.HTTP+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s\n%s", path, resp.Status, body)
	}
	return string(body), err
}
