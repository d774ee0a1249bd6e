package release_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestDigest has vectors: drivers and controllers of different versions must agree.
func TestDigest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data map[string][]byte
		want string
	}{
		"nothing":   {nil, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"one key":   {map[string][]byte{"a": []byte("1")}, "0e9c3156ac694b081269e7631db910df955a4df29e20086134d7aa57f4e54795"},
		"two keys":  {map[string][]byte{"b": {}, "a": []byte("1")}, "8d792d649dace668665ca2144af2648966377651fefd588cc0ec0b9731479143"},
		"not UTF-8": {map[string][]byte{"a": {0xff, 0}}, "df82b67674d7d6d8ab4c20d459cc5dcc604af570bdad4a06960b021d4cda8f23"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := release.Digest(tc.data); got != tc.want {
				t.Errorf("Digest = %s, want %s", got, tc.want)
			}
		})
	}
}

// TestDigestsDiffer where a careless digest would not: what belongs to a key cannot move to another one.
func TestDigestsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, data := range []map[string][]byte{
		{"a": []byte("bc")}, {"ab": []byte("c")}, {"a": nil, "bc": nil}, {"a": []byte("b"), "c": nil}, {"a": nil, "b": []byte("c")}, {"abc": nil},
	} {
		digest := release.Digest(data)
		if j, found := seen[digest]; found {
			t.Errorf("contents %d and %d have the digest %s", i, j, digest)
		}
		seen[digest] = i
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	if got, want := release.Position("5d0b2d4a-6f5e-4c9c-8b7e-0a3d0f3c9a11", "abc"), 0.3087863876; math.Abs(got-want) > 1e-9 {
		t.Errorf("Position = %.10f, want %.10f", got, want)
	}
	const pods, share = 10000, 0.25
	below := 0
	for i := range pods {
		if release.Position(fmt.Sprint("pod-", i), "abc") < share {
			below++
		}
	}
	if below < pods*share*0.9 || below > pods*share*1.1 {
		t.Errorf("%d of %d pods are below %v, want about a quarter", below, pods, share)
	}
}

func TestShows(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		exposure release.Exposure
		digest   string
		want     bool
	}{
		"to all":                            {release.Exposure{Digest: "d", Threshold: 1}, "d", true},
		"to nobody":                         {release.Exposure{Digest: "d"}, "d", false},
		"to the pod by name":                {release.Exposure{Digest: "d", Pods: []string{"other", "pod"}}, "d", true},
		"to another pod by name":            {release.Exposure{Digest: "d", Pods: []string{"other"}}, "d", false},
		"another candidate":                 {release.Exposure{Digest: "d", Threshold: 1, Pods: []string{"pod"}}, "e", false},
		"no candidate is known":             {release.Exposure{Threshold: 1}, "e", false},
		"neither is known":                  {release.Exposure{Threshold: 1}, "", false},
		"to those below, of which it is":    {release.Exposure{Digest: "d", Threshold: release.Position("pod", "d") + 1e-9}, "d", true},
		"to those below, of which it isn't": {release.Exposure{Digest: "d", Threshold: release.Position("pod", "d")}, "d", false},
		"together with another one": {release.Exposure{
			Digest: "d", With: map[string]string{"configmap/b": "e", "configmap/a": "d"},
			Threshold: release.Position("pod", "9c40095fcce602241114f36517fcbb5216ef59129b55030a34a1ca890d5e95f7") + 1e-9,
		}, "d", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.exposure.Shows("pod", tc.digest); got != tc.want {
				t.Errorf("Shows = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestExposureIsReadAsWritten(t *testing.T) {
	t.Parallel()
	want := release.Exposure{
		Digest: "d", With: map[string]string{"secret/s": "d"}, Threshold: 0.05, Pods: []string{"a"}, State: release.Progressing, Step: 2,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Reason: "why",
	}
	got, err := release.ParseExposure(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exposure (-want +got):\n%s", diff)
	}
	if text := (release.Exposure{}).String(); text != "" {
		t.Errorf("no exposure is written as %q", text)
	}
	if _, err := release.ParseExposure(`{"digest": 1}`); err == nil || !strings.Contains(err.Error(), release.ExposureAnnotation) {
		t.Errorf("error = %v, want one that names the annotation", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	ref := api.Ref{Kind: api.Secret, Namespace: "n", Name: "web"}
	if got := release.StableOf(ref); got.Name != "web.stable" || got.Kind != api.Secret || got.Namespace != "n" {
		t.Errorf("StableOf = %v", got)
	}
	labels := map[string]bool{}
	for _, name := range []string{
		"web", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a.", 100) + "b", strings.Repeat("a", 51) + ".-.b" + strings.Repeat("c", 60),
	} {
		label := release.LabelOf(name)
		if problems := validation.IsValidLabelValue(label); len(problems) > 0 || labels[label] {
			t.Errorf("the label of %s is %s, which is taken: %t, or wrong: %v", name, label, labels[label], problems)
		}
		labels[label] = true
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	text := "{not json"
	for i := range 12 {
		text = release.AddEntry(text, release.Entry{Digest: fmt.Sprint(i), Outcome: release.Promoted})
	}
	entries, err := release.ParseHistory(text)
	if err != nil || len(entries) != 10 || entries[0].Digest != "11" || entries[9].Digest != "2" {
		t.Errorf("history = %v, %v; want the ten newest, newest first", entries, err)
	}
	frozen := release.Entry{Digest: "12", Outcome: string(release.Frozen), At: time.Unix(10, 0).UTC(), Reason: "wait"}
	once := release.AddEntry(text, frozen)
	if twice := release.AddEntry(once, frozen); twice != once || once == text {
		t.Errorf("history = %s, want the last entry once", twice)
	}
	if _, err := release.ParseHistory("{"); err == nil {
		t.Error("what is no history is read as one")
	}
}
