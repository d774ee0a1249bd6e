// Package fleet tests the plugin as users have it with the pods of a large cluster: a real API server, and drivers that only
// answer. It does not know what single pods look like: that is up to test/cli. Its pods do nothing, so it needs no test/kit/fakenodes,
// which plays what happens to pods, and its nodes watch nothing, so it needs no test/bench/scale/fleet.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

func TestMain(m *testing.M) {
	testscript.Main(cluster.MainFunc(func() int { return cluster.ForMain(m) }), map[string]func(){"maxrss": maxRSS})
}

// The size of the fleet, of 5,000 pods.
const (
	fleetNodes      = 50
	podsOfNode      = 100
	fleetNamespaces = 20
	// fleetSources is how many ConfigMaps a namespace has.
	fleetSources = 10
)

const (
	// largestPlugin is how much memory the plugin may take, in KiB.
	largestPlugin = 200 << 10
	// patience is far more than the plugin takes: only one that hangs fails.
	patience = 2 * time.Minute
)

// TestGuardFleet: `status -A` and `describe -A --problems` read 5,000 pods in pages, each source and each node once, and need
// little memory. A node that does not answer is named, and does not stop them.
func TestGuardFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)

	got := f.run(t, "status", "-A")
	if diff := cmp.Diff(read(t, "status.txt"), got.out); diff != "" || got.status != 1 {
		t.Errorf("status ends with %d, want 1, and prints (-want +got):\n%s", got.status, diff)
	}
	if want := "on node node-49: its pod driver-node-49 did not answer as it should: "; !strings.Contains(got.errOut, want) {
		t.Errorf("status reports %q, want %q in it", got.errOut, want)
	}

	got = f.run(t, "describe", "-A", "--problems")
	rows, summary, _ := strings.Cut(got.out, "\n\n")
	if diff := cmp.Diff(read(t, "problems.txt"), summary); diff != "" || got.status != 0 {
		t.Errorf("describe ends with %d, want 0, and its last lines are (-want +got):\n%s", got.status, diff)
	}
	if got := strings.Count(rows, "\n"); got != 2*podsOfNode {
		t.Errorf("it lists %d problems, want one of each pod on two nodes", got)
	}
	for _, want := range []string{
		`(?m)^fleet-07/web-node-00-087 +node-00 +config +\S+ +configmap/app-4: its node has not heard of it yet$`,
		`(?m)^fleet-07/web-node-01-087 +node-01 +config +\S+ +TooLarge: the files take more than the memory budget$`,
	} {
		if !regexp.MustCompile(want).MatchString(rows) {
			t.Errorf("no problem is like %s:\n%s", want, rows)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fleet is a cluster with many pods, and the plugin that looks at them.
type fleet struct {
	c          *cluster.Cluster
	nodes      *drivers
	program    string
	kubeconfig string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	begin, c := time.Now(), cluster.ForTest(t)
	f := &fleet{c: c, nodes: newDrivers(t, c), program: environment.Plugin(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := c.WriteAdminKubeconfig(f.kubeconfig); err != nil {
		t.Fatal(err)
	}
	sources := f.makeSources(t)
	var many errgroup.Group
	many.SetLimit(16)
	for i := range fleetNodes {
		node := fmt.Sprintf("node-%02d", i)
		if i < fleetNodes-1 {
			f.nodes.add(t, node)
		} else {
			f.nodes.Add(t, node, nobody)
		}
		many.Go(func() error { return f.fill(t, node, i, sources) })
	}
	if err := many.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods are there after %s", fleetNodes*podsOfNode, time.Since(begin).Round(time.Second))
	return f
}

func namespaceOf(i int) string { return fmt.Sprintf("fleet-%02d", i%fleetNamespaces) }

// makeSources makes the ConfigMaps of all namespaces, and returns their versions by namespace and name.
func (f *fleet) makeSources(t *testing.T) map[string]statusz.Version {
	t.Helper()
	versions := map[string]statusz.Version{}
	for i := range fleetNamespaces {
		if err := f.c.CreateNamespace(t.Context(), namespaceOf(i)); err != nil {
			t.Fatal(err)
		}
		for j := range fleetSources {
			object := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-%d", j)}, Data: map[string]string{"app.conf": strings.Repeat("x", 1000)},
			}
			made, err := f.c.Client().CoreV1().ConfigMaps(namespaceOf(i)).Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			versions[made.Namespace+"/"+made.Name] = statusz.Version{UID: string(made.UID), ResourceVersion: made.ResourceVersion}
		}
	}
	return versions
}

// fill makes the pods of a node, and has its driver report them. On the first two
// nodes pods lag: on one of them, which has an older driver, since the driver has not heard of an edit.
func (f *fleet) fill(t *testing.T, node string, number int, sources map[string]statusz.Version) error {
	t.Helper()
	began := time.Now().Add(-time.Hour)
	report := statusz.Report{
		SchemaVersion: statusz.SchemaVersion, Driver: "csi.liveconfig.internal", Version: "v0.2.0", Node: node,
		Started: began, Now: time.Now(), Recovered: true,
	}
	if number == 0 {
		report.Version = "v0.1.0"
	}
	for i := range podsOfNode {
		namespace, source := namespaceOf(i), fmt.Sprintf("app-%d", (number*podsOfNode/fleetNamespaces+i/fleetNamespaces)%fleetSources)
		pod, err := f.makePod(t, namespace, fmt.Sprintf("web-%s-%03d", node, i), node, source)
		if err != nil {
			return err
		}
		report.Volumes = append(report.Volumes, volumeOf(pod, source, sources[namespace+"/"+source], number))
	}
	f.nodes.set(report)
	return nil
}

func volumeOf(pod *corev1.Pod, name string, has statusz.Version, number int) statusz.Volume {
	v := statusz.Volume{
		ID: "csi-" + string(pod.UID), Name: "config", State: statusz.Live, UpdatePolicy: "Atomic", OnDelete: "Keep",
		Pod:        statusz.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), ServiceAccount: "default"},
		TargetPath: "/var/lib/kubelet/pods/" + string(pod.UID) + "/volumes/kubernetes.io~csi/config/mount", Bytes: 1000,
		ProjectedAt: time.Now(), CheckedAt: time.Now(), Digest: "06ac98c1b99ab6bf0cd871553fdbc31d",
	}
	if number == 0 {
		has.ResourceVersion = "1"
	}
	if number == 1 {
		has.ResourceVersion = "1"
		v.Problem = &statusz.Problem{Kind: "TooLarge", Message: "the files take more than the memory budget", Since: time.Now().Add(-time.Minute)}
	}
	v.Sources = []statusz.Source{{
		Kind: "ConfigMap", Namespace: pod.Namespace, Name: name, ReadBy: "driver", Synced: true, Found: true, Known: &has, Projected: &has,
	}}
	return v
}

// makePod makes a pod that runs, as large as many are.
func (f *fleet) makePod(t *testing.T, namespace, name, node, source string) (*corev1.Pod, error) {
	t.Helper()
	inline := &corev1.CSIVolumeSource{
		Driver: "csi.liveconfig.internal", ReadOnly: new(true), VolumeAttributes: map[string]string{"configMap": source},
	}
	main := corev1.Container{Name: "main", Image: "registry.example.com/shop/web:1", VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}}
	for i := range 30 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("v", 40)})
	}
	pods := f.c.Client().CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": source}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{main},
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{CSI: inline}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	pod.Status.Phase = corev1.PodRunning
	return pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
}

// ran is one run of the plugin.
type ran struct {
	status      int
	out, errOut string
}

// run runs the plugin, and wants that it needs few requests and little memory.
func (f *fleet) run(t *testing.T, args ...string) ran {
	t.Helper()
	size := filepath.Join(t.TempDir(), "size")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "maxrss", append([]string{size, f.program, "--kubeconfig=" + f.kubeconfig}, args...)...)
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	begin := time.Now()
	if err := c.Run(); c.ProcessState == nil || !c.ProcessState.Exited() {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, errOut.String())
	}
	took := time.Since(begin)
	text, err := os.ReadFile(size)
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(text))
	if err != nil || kib > largestPlugin {
		t.Errorf("%s takes %s KiB (%v), want %d at most", args[0], text, err, largestPlugin)
	}
	requests := f.requests(t, begin)
	t.Logf("%s: %s, %d KiB, %d requests", strings.Join(args, " "), took.Round(time.Millisecond), kib, requests)
	t.Attr(args[0]+"-of-5000-pods", fmt.Sprintf("%d KiB, %d requests", kib, requests))
	return ran{status: c.ProcessState.ExitCode(), out: out.String(), errOut: errOut.String()}
}

// requests counts what the plugin has asked for since a time, and wants that it is no more than pages, sources and nodes.
func (f *fleet) requests(t *testing.T, since time.Time) int {
	t.Helper()
	requests, err := f.c.Requests(since)
	if err != nil {
		t.Fatal(err)
	}
	pages := int(math.Ceil(float64(fleetNodes*podsOfNode+fleetNodes) / 500))
	const (
		sources = fleetNamespaces * fleetSources
		// Of the drivers' pods there is one page.
		drivers = 1
	)
	count, most := map[string]int{}, map[string]int{"list pods": pages + drivers, "get configmaps": sources}
	for _, r := range requests {
		if r.Stage == cluster.StageReceived && strings.HasPrefix(r.UserAgent, "kubectl-liveconfig/") {
			count[r.Verb+" "+r.Resource]++
		}
	}
	if diff := cmp.Diff(most, count); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	asked := f.nodes.Forget()
	for node, times := range asked {
		if times != 1 {
			t.Errorf("node %s was asked %d times, want once", node, times)
		}
	}
	if len(asked) != fleetNodes {
		t.Errorf("%d nodes were asked, want %d", len(asked), fleetNodes)
	}
	return pages + drivers + sources + fleetNodes
}

// maxRSS is `maxrss FILE PROGRAM ARGS...`: it runs the program and writes into the file how much memory that took at most, in
// KiB. A large process cannot measure its children, since the kernel counts what they have before they execute a program.
func maxRSS() {
	c := exec.CommandContext(context.Background(), os.Args[2], os.Args[3:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	var use syscall.Rusage
	if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_CHILDREN, &use), os.WriteFile(os.Args[1], fmt.Append(nil, use.Maxrss), 0o600)); err != nil {
		panic(err)
	}
	if c.ProcessState == nil {
		panic(err)
	}
	os.Exit(c.ProcessState.ExitCode())
}
