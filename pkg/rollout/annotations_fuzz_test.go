package rollout_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// longest is how many bytes the annotations of an object may have together.
const longest = 256 << 10

// filled repeats a part until a text is as long as annotations may be.
func filled(part string) string { return strings.Repeat(part, longest/len(part)) }

// numbered is filled with texts of which each has another number.
func numbered(format string) string {
	var text strings.Builder
	for i := 0; text.Len() < longest-300; i++ {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// hostile are texts that were made to take time, memory or space in a log.
func hostile() []string {
	return []string{
		"", ",", "configmap/foo", `{"configmap/foo":"foo-0123456789"}`, filled(","), filled("a,"), filled("a"), filled("\x01,"), filled("/"),
		numbered("%x,"), numbered("configmap/%d,"), numbered("configmap/A%d\x01,"), "{" + strings.TrimSuffix(numbered(`"cm/%d":"",`), ",") + "}",
		strings.Repeat(strings.Repeat("\x01", 300)+",", 255), strings.Repeat("cm/"+strings.Repeat("\x01", 300)+",", 255),
		`{"cm/a":"` + filled(`\u0001`) + `"}`, `{"` + filled("a") + `":""}`, filled(`{"a":`), filled("["), `{"at":` + filled("1"), `{"config":{"cm/a":"` + filled("A") + `"}}`,
	}
}

// FuzzAnnotationsOfWorkloads reads what a workload and its pod template have.
func FuzzAnnotationsOfWorkloads(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, text, text, text)
	}
	f.Fuzz(func(t *testing.T, triggers, config, label, undone string) {
		within(t, func() {
			_, err := trigger.Parse(triggers)
			wantShort(t, err)
			c, err := trigger.ParseConfig(config)
			wantShort(t, err)
			trigger.ParseMark(label).IsUndoneFor(c)
			var u trigger.Undone
			_ = json.Unmarshal([]byte(undone), &u)
		})
	})
}

// FuzzAnnotationsOfReloader reads what a workload has for another controller.
func FuzzAnnotationsOfReloader(f *testing.F) {
	for _, text := range append(hostile(), strings.Repeat(strings.Repeat("a*", 100)+"|,", 100), "[a-z]+,(?i)foo") {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, reload, excluded, auto string) {
		w := reloader.Workload{Annotations: map[string]string{reloader.Auto: auto}, Used: []api.Ref{{Kind: api.Secret, Name: "foo"}}}
		for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
			w.Annotations[reloader.ReloadOf(kind)], w.Annotations[reloader.ExcludeOf(kind)] = reload, excluded
		}
		within(t, func() {
			_ = w.Named()
			_, err := w.Triggers(func(api.Ref) reloader.Mark { return reloader.MarkOf(w.Annotations) })
			wantShort(t, err)
		})
	})
}

// FuzzAnnotationsOfSources reads what a source, one of its copies, and a Role have.
func FuzzAnnotationsOfSources(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, text, text, text)
	}
	f.Fuzz(func(t *testing.T, labels, annotations, source, digest string) {
		meta := metav1.ObjectMeta{Name: "foo-0123456789", Labels: map[string]string{copies.Label: "foo"}, Annotations: map[string]string{
			copies.CopiedLabels: labels, copies.CopiedAnnotations: annotations, copies.SourceAnnotation: source, copies.DigestAnnotation: digest,
		}}
		within(t, func() {
			_, err := copies.CarriedBy(&meta)
			wantShort(t, err)
			_, err = copies.SourceOf(meta.Annotations)
			wantShort(t, err)
			_, err = copies.OfConfigMap(&corev1.ConfigMap{ObjectMeta: meta})
			wantShort(t, err)
			_, err = trigger.Parse(source) // A Role lists its sources so.
			wantShort(t, err)
		})
	})
}

// wantShort: a mistake goes into an Event and into the log, as often as somebody edits it.
func wantShort(t *testing.T, err error) {
	t.Helper()
	const most = 32 << 10
	if err != nil && len(err.Error()) > most {
		t.Errorf("the error has %d bytes, want %d at most: %.300s", len(err.Error()), most, err)
	}
}

// within fails unless something takes less than a second of this thread and 64 MiB. On a busy machine the clock would count the
// work of others.
func within(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := took()
	do()
	cpu := took() - start
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; cpu > time.Second || used > 64<<20 {
		t.Errorf("it took %v and %d bytes", cpu, used)
	}
}
