package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// edits are made in [TestLatency], one each editInterval.
	edits        = 50
	editInterval = time.Second
	// kubeletTimeout is more than the kubelet takes to show a change: it looks after its pods each 60 to 90 seconds.
	kubeletTimeout = 3 * time.Minute
)

// The volumes of [TestLatency] in its container.
const (
	oursPath   = mountPath + "/number"
	inTreePath = "/in-tree/number"
)

// TestLatency measures how long an edit takes from the request until a program in a container reads it, and the same of the
// kubelet's own volume of the same ConfigMap in the same container.
func TestLatency(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	number := func(n int) map[string]string { return map[string]string{"number": strconv.Itoa(n)} }
	s.putConfigMap(t, namespace, "numbers", number(0))
	pod := s.start(t, watcherPod(namespace))
	w := s.watchPod(t, pod)
	expect.NoError(t, w.until(0))

	sent, took := make([]time.Time, edits+1), make([]time.Duration, 0, edits)
	ticker := time.NewTicker(editInterval)
	defer ticker.Stop()
	for n := 1; n <= edits; n++ {
		<-ticker.C
		sent[n] = time.Now()
		s.putConfigMap(t, namespace, "numbers", number(n))
		took = append(took, time.Since(sent[n]))
	}
	expect.NoError(t, w.until(edits))

	ours, inTree := w.latencies(sent, oursPath), w.latencies(sent, inTreePath)
	if got, limit := expect.Percentile(ours, 50), expect.Percentile(inTree, 50); got >= limit {
		t.Errorf("half of the edits took %s or more, and %s in the kubelet's own volume", got, limit)
	}
	if got := expect.Percentile(ours, 99); got > changeTimeout {
		t.Errorf("an edit took %s, want at most %s", got, changeTimeout)
	}
	report(t, "latency/liveconfig", ours)
	report(t, "latency/in-tree", inTree)
	ratio := expect.Percentile(inTree, 50).Seconds() / expect.Percentile(ours, 50).Seconds()
	note(t, "latency/in-tree-p50-of-liveconfig-p50", fmt.Sprintf("%.0f", ratio))
	note(t, "latency/update-request-p50", rounded(expect.Percentile(took, 50)))
	note(t, "latency/edits-seen-one-by-one", fmt.Sprintf("liveconfig %d, in-tree %d of %d",
		len(w.seen[oursPath])-1, len(w.seen[inTreePath])-1, edits))
}

// watcherPod has both volumes of the ConfigMap numbers and prints what it reads from them.
func watcherPod(namespace string) *corev1.Pod {
	pod := boxPod(namespace, "watcher", map[string]string{"configMap": "numbers"})
	pod.Spec.Volumes = append(pod.Spec.Volumes, inTreeMap("in-tree", "numbers"))
	main := &pod.Spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "in-tree", MountPath: "/in-tree"})
	main.Command = []string{"box", "watch", oursPath, inTreePath}
	return pod
}

// inTreeMap is the kubelet's own volume of a ConfigMap.
func inTreeMap(volume, configMap string) corev1.Volume {
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: source}}
}

// watcher reads what box watch prints in a pod.
type watcher struct {
	lines *bufio.Scanner
	seen  map[string][]sighting // By file.
}

// sighting is a content that a program has read for the first time.
type sighting struct {
	number int
	at     time.Time
}

// watchPod follows the log of a pod until the test ends.
func (s *site) watchPod(t *testing.T, pod *corev1.Pod) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout+edits*editInterval+kubeletTimeout)
	log, err := s.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = log.Close() // It was only read.
	})
	return newWatcher(log)
}

func newWatcher(log io.Reader) *watcher {
	return &watcher{lines: bufio.NewScanner(log), seen: map[string][]sighting{}}
}

// until reads on until both volumes have shown a number, and returns an error if one of them ever shows anything but a later
// number than before.
func (w *watcher) until(number int) error {
	for w.last(oursPath) < number || w.last(inTreePath) < number {
		if !w.lines.Scan() {
			ended := fmt.Errorf("the log ends before both volumes have shown %d: %v", number, w.seen)
			return errors.Join(ended, w.lines.Err())
		}
		var at int64
		var file, content string
		if _, err := fmt.Sscanf(w.lines.Text(), "%d %s %q", &at, &file, &content); err != nil {
			return fmt.Errorf("the log has the line %q: %w", w.lines.Text(), err)
		}
		next, err := strconv.Atoi(content)
		if err != nil || next <= w.last(file) || next > edits {
			return fmt.Errorf("%s has %q after %d, want a later number", file, content, w.last(file))
		}
		w.seen[file] = append(w.seen[file], sighting{next, time.Unix(0, at)})
	}
	return nil
}

// last is the number that a file has shown last, or -1.
func (w *watcher) last(file string) int {
	seen := w.seen[file]
	if len(seen) == 0 {
		return -1
	}
	return seen[len(seen)-1].number
}

// latencies returns for each edit how long it took until a file had it, or a later one.
func (w *watcher) latencies(sent []time.Time, file string) (all []time.Duration) {
	for n := 1; n < len(sent); n++ {
		i := slices.IndexFunc(w.seen[file], func(s sighting) bool { return s.number >= n })
		all = append(all, w.seen[file][i].at.Sub(sent[n]))
	}
	return all
}

// report counts the percentiles that people ask for.
func report(t testing.TB, key string, all []time.Duration) {
	t.Helper()
	for _, p := range []float64{50, 90, 99} {
		note(t, fmt.Sprintf("%s-p%.0f", key, p), rounded(expect.Percentile(all, p)))
	}
	note(t, key+"-max", rounded(slices.Max(all)))
}

// note counts something for the summary of a run.
func note(t testing.TB, key, value string) {
	t.Helper()
	t.Attr(key, value)
	t.Logf("%s: %s", key, value)
}

// rounded is a duration as people read it.
func rounded(d time.Duration) string {
	if d > time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// TestWatcher needs no node.
func TestWatcher(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ log, want string }{
		"both show it":                {log: "1 /config/number \"2\"\n2 /in-tree/number \"2\"\n"},
		"one shows a later one":       {log: "1 /config/number \"1\"\n2 /config/number \"3\"\n2 /in-tree/number \"2\"\n"},
		"one never shows it":          {log: "1 /config/number \"2\"\n2 /in-tree/number \"1\"\n", want: "the log ends"},
		"a content goes back":         {log: "1 /config/number \"1\"\n2 /config/number \"0\"\n", want: `"0" after 1`},
		"a content comes twice":       {log: "1 /config/number \"1\"\n2 /config/number \"1\"\n", want: `"1" after 1`},
		"a file is empty":             {log: "1 /config/number \"\"\n", want: `"" after -1`},
		"a content that nobody wrote": {log: "1 /config/number \"77\"\n", want: `"77" after -1`},
		"no line of box watch":        {log: "usage\n", want: `the line "usage"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := newWatcher(strings.NewReader(tt.log)).until(2)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
		})
	}
}
