package release

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestHostileAnnotations end no controller, which has the memory of its container: a few of these of
// 8 KB each took gigabytes when they were decoded. Other releases go on.
func TestHostileAnnotations(t *testing.T) {
	s := newIdleSite(t, environment.AsShipped(t, "liveconfig-controller"))
	s.limit()
	const length = 16 << 10
	for name, text := range map[string]string{
		"fields":  "{" + strings.Repeat("a,", length/2-1) + "}",
		"lists":   strings.Repeat("[", length),
		"aliases": "a: &a [x,x,x,x]\n" + strings.Repeat("b: [*a,*a,*a,*a]\n", 500),
		"long":    strings.Repeat("a", 200<<10),
	} {
		for i := range 5 {
			_, err := s.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint(name, i), Annotations: map[string]string{release.Annotation: text},
			}}, metav1.CreateOptions{})
			expect.NoError(t, err)
		}
	}
	s.start()
	s.create("web", "steps: [100%]", map[string]string{"a": "1"})
	s.replicas(1, web)
	s.edit("web", map[string]string{"a": "2"})
	s.wantValues("a", map[string]int{"2": 1})
	s.wantEvent("fields0", releases.ReasonMistake, "unknown field")
	s.wantEvent("long0", releases.ReasonMistake, "has more than 16384 bytes")
}

// The attack of [TestHostileCopies].
const (
	hostileObjects = 250
	hostilePods    = 4
	hostileEdits   = 20
)

// TestHostileCopies delay no update of a bystander, and the driver stays healthy: the volumes of
// another namespace have hundreds of released sources, and the annotations of their copies are as
// long as they may be, with as many partners as there may be. The driver has the memory of its
// container.
func TestHostileCopies(t *testing.T) {
	bystander, hostile := newContained(t), kit.NewBare(t)
	hostile.Use(bystander.Node)
	hostile.AllowSecrets("default")
	bystander.CreateConfigMap("web", map[string]string{"a": "0"})
	pod := bystander.Pod("bystander", web)
	bystander.Publish(pod)
	var list []string
	for i := range hostileObjects {
		createHostile(t, hostile, i)
		list = append(list, fmt.Sprintf("- configMap: {name: %s}", hostileName(i)))
	}
	for i := range hostilePods {
		hostile.Publish(hostile.Pod(fmt.Sprint("pod-", i), map[string]string{"sources": strings.Join(list, "\n")}))
	}
	var delays []time.Duration
	for i := range hostileEdits {
		for j := range 10 {
			hostile.UpdateConfigMap(hostileName(10*i+j), map[string]string{hostileName(10*i + j): fmt.Sprint(i)})
		}
		value := fmt.Sprint(i + 1)
		start := time.Now()
		bystander.UpdateConfigMap("web", map[string]string{"a": value})
		expect.Eventually(t, soon, func() error { return bystander.Holds(pod, "a", value) })
		delays = append(delays, time.Since(start))
		bystander.Get("/healthz")
	}
	slices.Sort(delays)
	t.Logf("a bystander's update takes %v at the median, and %v at most", delays[len(delays)/2], delays[len(delays)-1])
	if longest := delays[len(delays)-1]; longest > time.Second {
		t.Errorf("a bystander's update takes %v, want less than a second", longest)
	}
}

// newContained returns a fixture whose driver has the memory that the chart gives it.
func newContained(t *testing.T) *kit.Fixture {
	t.Helper()
	launcher := environment.Contained(t, environment.ChartMemory(t, environment.DriverContainer))
	b := kit.NewBare(t)
	args := []string{"--http-endpoint=" + b.HTTP}
	if launcher == nil {
		args = append(args, "--volume-memory=350Mi")
	}
	b.Use(environment.NodeLaunched(t, launcher, args...))
	b.AllowSecrets("default")
	return b
}

func hostileName(i int) string { return fmt.Sprint("object-", i) }

// createHostile creates a released object, and a stable copy whose annotations name many others.
func createHostile(t *testing.T, b *kit.Fixture, i int) {
	t.Helper()
	data := map[string]string{hostileName(i): environment.Marked("1")}
	with := map[string]string{}
	first := i - i%release.MostMembers // Copies of one release: volumes do not wait for those that disagree.
	for j := first; j < min(first+release.MostMembers, hostileObjects); j++ {
		with["configmap/"+hostileName(j)] = strings.Repeat("1", 100)
	}
	e := release.Exposure{Digest: digestOf(data), With: with, Threshold: 1}
	for _, m := range []*corev1.ConfigMap{ // The copy first: a controller would make it.
		{ObjectMeta: metav1.ObjectMeta{
			Name: hostileName(i) + release.Suffix, Labels: map[string]string{release.StableLabel: hostileName(i)},
			Annotations: map[string]string{
				release.ExposureAnnotation: e.String(), release.PartnersAnnotation: release.Partners(nil).Promoted(e).String(),
			},
		}, Data: data},
		{ObjectMeta: metav1.ObjectMeta{Name: hostileName(i), Annotations: map[string]string{release.Annotation: ""}}, Data: data},
	} {
		_, err := b.ConfigMaps().Create(t.Context(), m, metav1.CreateOptions{})
		expect.NoError(t, err)
	}
}
