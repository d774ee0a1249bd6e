package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestAnOptionalSourceComesGoesAndComesBack is rule 12: what a later source has covered comes back when that source
// goes.
func TestAnOptionalSourceComesGoesAndComesBack(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("app", map[string]string{"base": "1"})
		pod := b.Pod("app", map[string]string{"sources": `
- configMap: {name: app}
- configMap: {name: override, optional: true}`})
		b.Publish(pod)
		b.WantFile(pod, "base", "1")
		b.WantNoFile(pod, "extra")
		for _, value := range []string{"first", "second"} {
			b.CreateConfigMap("override", map[string]string{"extra": value, "base": "overridden"})
			b.WantFile(pod, "extra", value)
			b.WantFile(pod, "base", "overridden")
			b.DeleteConfigMap("override")
			b.WantNoFile(pod, "extra")
			b.WantFile(pod, "base", "1")
		}
	})
}

// TestOptionalItemsTakeTurns is rules 14 and 30 (trap 12): a file becomes a directory and back. While both exist, a new pod is
// refused, and a live volume keeps its files.
func TestOptionalItemsTakeTurns(t *testing.T) {
	t.Parallel()
	const conflict = `path "foo" cannot be a file and, for "foo/bar", a directory`
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("web", map[string]string{"file": "1"})
		var pods []*corev1.Pod
		attributes := func(policy string) map[string]string {
			return map[string]string{
				"configMap": "web", "optional": "true", "updatePolicy": policy,
				"items": "[{key: file, path: foo}, {key: below, path: foo/bar}]",
			}
		}
		for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
			pod := b.Pod(strings.ToLower(policy), attributes(policy))
			b.Publish(pod)
			b.WantFile(pod, "foo", "1")
			pods = append(pods, pod)
		}
		want := func(file, value string) {
			for _, pod := range pods {
				b.WantFile(pod, file, value)
			}
		}
		b.UpdateConfigMap("web", map[string]string{"below": "2"})
		want("foo/bar", "2")
		b.UpdateConfigMap("web", map[string]string{"file": "3", "below": "3"})
		for _, pod := range pods {
			b.WantEvent(pod, "ProjectionFailed", conflict)
		}
		want("foo/bar", "2")
		b.WantRefusal(b.Pod("late", attributes("Atomic")), codes.InvalidArgument, conflict)
		b.UpdateConfigMap("web", map[string]string{"file": "4"})
		want("foo", "4")
		for _, pod := range pods {
			b.WantEvent(pod, "Projected", "current again")
		}
	})
}

// TestARequiredSourceThatIsDeletedLeavesItsFiles is rule 47.
func TestARequiredSourceThatIsDeletedLeavesItsFiles(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("web", map[string]string{"color": "red"})
		keep := b.Pod("keep", map[string]string{"configMap": "web"})
		remove := b.Pod("remove", map[string]string{"configMap": "web", "onDelete": "Remove"})
		b.Publish(keep)
		b.Publish(remove)
		b.DeleteConfigMap("web")
		b.WantNoFile(remove, "color")
		b.WantEvent(keep, "SourceMissing", `configmap "web" not found`)
		b.WantFile(keep, "color", "red")
		b.CreateConfigMap("web", map[string]string{"color": "blue"})
		b.WantFile(keep, "color", "blue")
		b.WantFile(remove, "color", "blue")
		b.WantEvent(keep, "Projected", "current again")
	})
}

// TestAnObjectThatIsReplacedTakesNoFileAway is fault 25: `kubectl replace --force`, and editors of manifests, delete an object
// and create it at once. That is one change: every file is there all the time, and no pod is informed that its source is missing.
func TestAnObjectThatIsReplacedTakesNoFileAway(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("web", map[string]string{"n": "0"})
		pods := []*corev1.Pod{
			b.Pod("optional", map[string]string{"configMap": "web", "optional": "true"}),
			b.Pod("remove", map[string]string{"configMap": "web", "onDelete": "Remove"}),
			b.Pod("keep", map[string]string{"configMap": "web"}),
		}
		for _, pod := range pods {
			b.Publish(pod)
		}
		isProven := true
		for round := range 5 {
			began, value := time.Now(), fmt.Sprint(round+1)
			b.DeleteConfigMap("web")
			expect.Eventually(t, fixture.Soon, b.knowsNothingOf("web"))
			b.CreateConfigMap("web", map[string]string{"n": value})
			took := time.Since(began)
			isProven = isProven && took < source.AbsenceTime/2
			if !isProven {
				t.Logf("the machine is busy: the object was away for up to %s, so its files may go", took)
			}
			for _, pod := range pods {
				expect.Eventually(t, fixture.Soon, func() error {
					err := b.Holds(pod, "n", value)
					if isProven && errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					return err
				})
			}
		}
		if isProven {
			b.WantNumber(`liveconfig_syncs_total{result="failed"}`, 0)
		}
	})
}

// knowsNothingOf returns an error while the driver has not heard that a ConfigMap which all of its volumes use is gone.
func (b *rig) knowsNothingOf(name string) func() error {
	return func() error {
		var report statusz.Report
		if err := json.Unmarshal([]byte(b.Get("/statusz")), &report); err != nil {
			return err
		}
		for _, v := range report.Volumes {
			for _, s := range v.Sources {
				if s.Name == name && s.Found {
					return fmt.Errorf("the driver still has %s", name)
				}
			}
		}
		return nil
	}
}

// wantEventAnswered waits until the API server has done with an Event of the namespace.
func (b *rig) wantEventAnswered() {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error {
		requests, err := b.Cluster.Requests(time.Time{})
		if err != nil {
			return err
		}
		for _, r := range requests {
			if r.Resource == "events" && r.Namespace == b.Namespace && r.Code == http.StatusCreated {
				return nil
			}
		}
		return errors.New("no Event has been written yet")
	})
}

// TestNothingButOpenWatchesInQuietTimes shows that nothing polls: of a driver with volumes that nobody touches, the API
// server sees no request at all for ten seconds.
func TestNothingButOpenWatchesInQuietTimes(t *testing.T) {
	b := &rig{fixture.New(t)} // Not parallel: the API server's audit log distinguishes users, not drivers.
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"sources": "[{configMap: {name: web}}, {configMap: {name: none, optional: true}}]"})
	b.Publish(pod)
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(pod, "color", "green")
	b.wantEventAnswered() // It is the last request that the change causes.

	const quiet = 10 * time.Second
	start := time.Now()
	time.Sleep(quiet) //nolint:forbidigo // That nothing happens meanwhile is the point.
	requests, err := b.Cluster.Requests(start)
	expect.NoError(t, err)
	driver := cluster.ServiceAccountUser(environment.DriverNamespace, environment.DriverAccount)
	for _, r := range requests {
		if r.User == driver {
			t.Errorf("request in quiet times: %s", r)
		}
	}

	// The audit log does see the driver, and its watches are open: the next change comes through one of them.
	b.UpdateConfigMap("web", map[string]string{"color": "blue"})
	b.WantFile(pod, "color", "blue")
	all, err := b.Cluster.Requests(time.Time{})
	expect.NoError(t, err)
	watches := 0
	for _, r := range all {
		if r.User == driver && r.Verb == "watch" && r.Namespace == b.Namespace {
			watches++
		}
	}
	if watches == 0 {
		t.Error("the audit log shows no watch of the driver at all: it would not have shown requests either")
	}
}

// foundUnchanged is how often the driver has looked at a volume since it was started, and has left its files as they are.
const foundUnchanged = `liveconfig_syncs_total{result="unchanged"}`

// wantMore waits until a series of the driver's metrics is more than it was.
func (b *rig) wantMore(series string, than float64) {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error {
		if got := b.Number(series); got <= than {
			return fmt.Errorf("%s is %v, want more than %v", series, got, than)
		}
		return nil
	})
}
