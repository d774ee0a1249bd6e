package release_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// copyWith returns the marks of a stable copy with an annotation.
func copyWith(name, text string) *release.Marks {
	return release.MarksOf(map[string]string{name: text}, map[string]string{release.StableLabel: "web"}, nil)
}

// manyNames returns an object of JSON with as many names.
func manyNames(count int) string {
	names := map[string]string{}
	for i := range count {
		names[fmt.Sprintf("configmap/object-%d", i)] = "0123456789abcdef"
	}
	text, _ := json.Marshal(names)
	return string(text)
}

func manyPods(count int) string {
	return `{"digest": "d", "pods": [` + strings.TrimSuffix(strings.Repeat(`"u",`, count), ",") + `]}`
}

func TestAnnotationsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", release.LongestAnnotation)
	for name, test := range map[string]struct{ annotation, text, want string }{
		"a long exposure": {
			release.ExposureAnnotation, `{"digest": "` + long + `"}`,
			"annotation liveconfig.internal/exposure has 65550 bytes, the most is 65536",
		},
		"an exposure with many pods": {
			release.ExposureAnnotation, manyPods(release.MostPods + 1), "annotation liveconfig.internal/exposure has 1501 pods, the most is 1500",
		},
		"an exposure with many objects": {
			release.ExposureAnnotation, `{"digest": "d", "with": ` + manyNames(101) + `}`,
			"annotation liveconfig.internal/exposure has 101 objects, the most is 100",
		},
		"many partners": {
			release.PartnersAnnotation, manyNames(101), "annotation liveconfig.internal/released-with has 101 objects, the most is 100",
		},
		"a long release of several objects": {
			release.TogetherAnnotation, long, "annotation liveconfig.internal/released-together has 65536 bytes, the most is 64",
		},
		"as many as there may be": {release.PartnersAnnotation, manyNames(100), ""},
		"as many pods as may be":  {release.ExposureAnnotation, manyPods(release.MostPods), ""},
		"no JSON":                 {release.ExposureAnnotation, "{", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, got := copyWith(test.annotation, test.text), ""
			if m.Err != nil {
				got = m.Err.Error()
			}
			if got != test.want {
				t.Errorf("Err = %q, want %q", got, test.want)
			}
			if test.want != "" && m.Size() > 1<<10 {
				t.Errorf("marks that cannot be used take %d bytes", m.Size())
			}
		})
	}
}

func TestMarksOfObjectsWithoutReleases(t *testing.T) {
	t.Parallel()
	if m := release.MarksOf(map[string]string{release.ExposureAnnotation: "{}"}, nil, nil); m != nil || m.Size() != 0 {
		t.Errorf("MarksOf() = %+v, want nil", m)
	}
}

// TestAudience answers as the exposure does that it was made of.
func TestAudience(t *testing.T) {
	t.Parallel()
	e := release.Exposure{Digest: "d", With: map[string]string{"configmap/a": "1"}, Threshold: 0.5, Pods: []string{"z", "a"}}
	for _, pod := range []string{"a", "z", "b", "c", "d", "e"} {
		for _, digest := range []string{"d", "other", ""} {
			if got, want := e.Audience().Shows(pod, digest), e.Shows(pod, digest); got != want {
				t.Errorf("Shows(%q, %q) = %t, want %t", pod, digest, got, want)
			}
		}
	}
}

func TestRefOf(t *testing.T) {
	t.Parallel()
	for _, ref := range []api.Ref{{Kind: api.ConfigMap, Namespace: "ns", Name: "a"}, {Kind: api.Secret, Namespace: "ns", Name: "b"}} {
		if got, ok := release.RefOf("ns", release.NameOf(ref)); !ok || got != ref {
			t.Errorf("RefOf(NameOf(%v)) = %v, %t", ref, got, ok)
		}
	}
	if _, ok := release.RefOf("ns", "configmap/"); ok {
		t.Error("a name without an object is one")
	}
}

// FuzzMarks reads any annotations of a stable copy, within a second and 16 MiB.
func FuzzMarks(f *testing.F) {
	for _, text := range []string{"", "{", "{}", manyNames(100), manyPods(10), strings.Repeat("[", 30000), strings.Repeat(`{"with":`, 5000)} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, exposure, partners, history string) {
		within(t, func() {
			m := release.MarksOf(map[string]string{release.ExposureAnnotation: exposure, release.PartnersAnnotation: partners},
				map[string]string{release.StableLabel: "web"}, nil)
			_ = m.Audience.Shows("pod", m.Audience.Digest())
			_, _ = release.ParseHistory(history)
		})
	})
}

// FuzzNotes reads the other annotations that controllers write, and that anybody who may change these objects can write too.
func FuzzNotes(f *testing.F) {
	for _, text := range []string{
		"", "{", "{}", strings.Repeat("[", 30000), strings.Repeat(`{"contents":`, 5000), `{"since": "` + strings.Repeat("1", 60000) + `"}`,
		`{"digest": "` + strings.Repeat("d", 200<<10) + `"}`, `{"contents": [` + strings.TrimSuffix(strings.Repeat("{},", 20000), ",") + `]}`,
		`{"ended": [` + strings.TrimSuffix(strings.Repeat("{},", 20000), ",") + `]}`, `{"at": 1e` + strings.Repeat("9", 60000) + `}`,
	} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, attempt, former, together string) {
		within(t, func() {
			if a := release.ParseAttempt(attempt); len(a.String()) > 32<<10 {
				t.Errorf("the note of a check has %d bytes", len(a.String()))
			}
			if kept, err := release.ParseFormer(former); err == nil && len(kept.Contents) > release.MostFormer {
				t.Errorf("%d contents are kept, want %d at most", len(kept.Contents), release.MostFormer)
			}
			if m := copyWith(release.TogetherAnnotation, together); len(m.Together) > 64 {
				t.Errorf("the marks have %d bytes of the annotation", len(m.Together))
			}
		})
	})
}

// within fails unless something takes little time and memory.
func within(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime(t)
	do()
	took := cpuTime(t) - start
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; took > time.Second || used > 16<<20 {
		t.Errorf("it took %v and %d bytes", took, used)
	}
}

// cpuTime returns how long the processor has worked for this thread, to which the caller is locked. On a
// busy machine the clock would count the work of others.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
