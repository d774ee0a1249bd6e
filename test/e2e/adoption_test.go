package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestAdoption: workloads in the shapes of well-known charts get live volumes by the label of their namespace, with the same
// files as before, and lose them by its removal. Their manifests stay as they are.
func TestAdoption(t *testing.T) {
	s := on(t, realnode.Containerd2())
	const change = "helm upgrade liveconfig deploy/chart --namespace " + driverNamespace + " --reset-then-reuse-values --set admission.volumes="
	t.Cleanup(func() {
		if _, err := s.Shell(context.Background(), change+"false"); err != nil {
			t.Error(err)
		}
	})
	s.run(t, s.Repo(), change+"true")
	namespace := s.namespace(t)
	s.allowSecrets(t, namespace)
	s.run(t, s.Repo(), "kubectl -n "+namespace+" apply -f test/e2e/testdata/charts.yaml")
	before := s.awaitRound(t, namespace)
	wantOurs(t, before, nil)

	s.run(t, s.Repo(), "kubectl label namespace "+namespace+" liveconfig.internal/volumes=configMaps.secrets")
	s.awaitConversion(t, namespace)
	s.run(t, s.Repo(), "kubectl -n "+namespace+" rollout restart deployment,statefulset,daemonset")
	live := s.awaitRound(t, namespace)
	wantOurs(t, live, map[string]bool{"vault/identity": false})
	for name, want := range before {
		wantSameTree(t, name, want, live[name])
	}

	s.putConfigMap(t, namespace, "rules-a", map[string]string{"a.yaml": "groups: [new]"})
	s.wantText(t, live["prometheus/rules"], "a.yaml", "groups: [new]")
	s.wantText(t, live["grafana/datasources"], "a.yaml", "groups: [new]")
	s.run(t, s.Repo(), "kubectl -n "+namespace+` patch secret tls -p '{"stringData":{"tls.key":"another key"}}'`)
	s.wantText(t, live["postgresql/certificates"], "tls.key", "another key")
	s.wantText(t, live["ingress/bundle"], "server/tls.key", "another key")
	s.run(t, s.Repo(), "kubectl -n "+namespace+` patch configmap conf -p '{"data":{"nginx.conf":"worker_processes 2;"}}'`)
	s.run(t, s.Repo(), "kubectl -n "+namespace+` patch secret passwords -p '{"stringData":{"admin":"another secret"}}'`)
	s.wantSubPath(t, namespace, "deployment/nginx", "/etc/nginx/nginx.conf", "worker_processes 2;")
	s.wantSubPath(t, namespace, "deployment/grafana", "/etc/secrets/admin", "another secret")

	s.run(t, s.Repo(), "kubectl label namespace "+namespace+" liveconfig.internal/volumes-")
	s.run(t, s.Repo(), "kubectl -n "+namespace+" rollout restart deployment,statefulset,daemonset")
	wantOurs(t, s.awaitRound(t, namespace), nil)
}

// chartVolume is a volume of a pod with its files, directories and links.
type chartVolume struct {
	isOurs, isConfigMap bool
	// inPlace is whether files are rewritten, so that the volume has no links.
	inPlace bool
	dir     string
	// mode is that of the volume itself, entries are what entriesOf returns.
	mode    fs.FileMode
	entries map[string]string
}

// awaitConversion waits until the API server applies the policy in the namespace.
func (s *site) awaitConversion(t *testing.T, namespace string) {
	t.Helper()
	pod := boxPod(namespace, "probe", nil)
	pod.Annotations = map[string]string{api.Domain + "/volumes": "live"}
	reference := corev1.LocalObjectReference{Name: "conf"}
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}}
	expect.Eventually(t, startTimeout, func() error {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		created, err := s.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, dry)
		if err == nil && created.Spec.Volumes[0].CSI == nil {
			err = fmt.Errorf("the volume of a new pod is %v", created.Spec.Volumes[0])
		}
		return err
	})
}

// awaitRound waits until the workloads of the namespace are rolled out, and returns their configMap, secret, projected and
// csi volumes by workload and volume.
func (s *site) awaitRound(t *testing.T, namespace string) map[string]chartVolume {
	t.Helper()
	s.run(t, s.Repo(), "for workload in $(kubectl -n "+namespace+" get deployment,statefulset,daemonset -o name); do "+
		"kubectl -n "+namespace+" rollout status --timeout=180s $workload; done")
	list, err := s.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	found := map[string]chartVolume{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp != nil || ready(&pod) != nil {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			dir := s.chartVolumeDir(&pod, v)
			if dir != "" && !strings.HasPrefix(v.Name, "kube-api-access-") {
				found[pod.Labels["app"]+"/"+v.Name] = chartVolumeOf(t, v, dir)
			}
		}
	}
	return found
}

// chartVolumeDir returns where the node has a volume, or "" for one that holds no objects.
func (s *site) chartVolumeDir(pod *corev1.Pod, v corev1.Volume) string {
	in := func(plugin string) string {
		return filepath.Join(s.Root(), "var/lib/kubelet/pods", string(pod.UID), "volumes", plugin, v.Name)
	}
	switch {
	case v.CSI != nil:
		return s.VolumeDir(pod, v.Name)
	case v.ConfigMap != nil:
		return in("kubernetes.io~configmap")
	case v.Secret != nil:
		return in("kubernetes.io~secret")
	case v.Projected != nil:
		return in("kubernetes.io~projected")
	default:
		return ""
	}
}

func chartVolumeOf(t *testing.T, v corev1.Volume, dir string) chartVolume {
	t.Helper()
	info, err := os.Stat(dir)
	expect.NoError(t, err)
	return chartVolume{
		isOurs:      v.CSI != nil,
		isConfigMap: v.ConfigMap != nil,
		inPlace:     v.CSI != nil && v.CSI.VolumeAttributes[api.KeyUpdatePolicy] == string(api.UpdateInPlace),
		dir:         dir, mode: info.Mode(), entries: entriesOf(t, dir),
	}
}

// generationName stands for the directory that ..data points to: its name has the time.
const generationName = "..GENERATION"

// entriesOf returns mode and owner of each file, directory and link of a volume, with the content of files and the targets of
// links; of the volume itself, whose path is ".", the owner alone. Tokens differ from pod to pod.
func entriesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	generation, err := os.Readlink(filepath.Join(dir, "..data"))
	if !errors.Is(err, fs.ErrNotExist) { // A volume that is rewritten in place has none.
		expect.NoError(t, err)
	}
	normal := func(path string) string {
		if rest, isBelow := strings.CutPrefix(path, generation); isBelow && generation != "" {
			return generationName + rest
		}
		return path
	}
	found := map[string]string{}
	expect.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		owner := fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
		if file == dir {
			found["."] = owner
			return nil
		}
		content, err := entryContent(file, info)
		found[normal(strings.TrimPrefix(file, dir+"/"))] = fmt.Sprintf("%s %s %s", info.Mode(), owner, normal(content))
		return err
	}))
	return found
}

// entryContent returns the quoted content of a file, or the target of a link.
func entryContent(file string, info fs.FileInfo) (string, error) {
	switch {
	case info.IsDir():
		return "", nil
	case info.Mode().Type() == fs.ModeSymlink:
		return os.Readlink(file)
	case info.Name() == "token":
		return "a token", nil
	}
	data, err := os.ReadFile(file)
	return fmt.Sprintf("%q", data), err
}

// wantSameTree compares all that a volume has in-tree with the live volume. Nothing differs but what docs/attributes.md says: the
// mode of the root; and the files of a volume that is rewritten in place are where Kubernetes' volume has links.
func wantSameTree(t *testing.T, name string, inTree, live chartVolume) {
	t.Helper()
	want := inTree.entries
	if link := want["..data"]; !strings.HasSuffix(link, " "+generationName) {
		t.Errorf("%s has ..data %q in-tree, want a link to its generation", name, link)
	}
	if live.inPlace {
		want = withoutLinks(want)
	}
	if diff := cmp.Diff(want, live.entries); diff != "" {
		t.Errorf("entries of %s (-in-tree +live):\n%s", name, diff)
	}
	const permissions, inTreePermissions, livePermissions = fs.ModeSticky | fs.ModePerm, 0o777, 0o755
	wantInTree, wantLive := fs.FileMode(inTreePermissions), fs.FileMode(livePermissions)
	if !inTree.isConfigMap {
		wantInTree |= fs.ModeSticky
	}
	if !live.isOurs {
		wantLive = wantInTree
	}
	if got := inTree.mode & permissions; got != wantInTree {
		t.Errorf("root of %s has mode %s in-tree, want %s", name, inTree.mode, wantInTree)
	}
	if want := inTree.mode&^permissions | wantLive; live.mode != want {
		t.Errorf("root of %s has mode %s, want %s", name, live.mode, want)
	}
}

// withoutLinks returns the entries as they are without the layout of links.
func withoutLinks(entries map[string]string) map[string]string {
	plain := map[string]string{".": entries["."]}
	for path, entry := range entries {
		if below, isBelow := strings.CutPrefix(path, generationName+"/"); isBelow {
			plain[below] = entry
		}
	}
	return plain
}

// wantOurs checks which volumes are ours: all but those that are named, or none.
func wantOurs(t *testing.T, volumes map[string]chartVolume, but map[string]bool) {
	t.Helper()
	const all = 17
	if len(volumes) != all {
		t.Errorf("there are %d volumes, want %d: %q", len(volumes), all, slices.Sorted(maps.Keys(volumes)))
	}
	for name, v := range volumes {
		_, isNamed := but[name]
		if want := but != nil && !isNamed; v.isOurs != want {
			t.Errorf("%s is ours: %t, want %t", name, v.isOurs, want)
		}
	}
}

// wantText waits until a file of a volume has a text, for less time than the kubelet takes.
func (s *site) wantText(t *testing.T, v chartVolume, file, want string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		got, err := os.ReadFile(filepath.Join(v.dir, file))
		if err == nil && string(got) != want {
			err = fmt.Errorf("%s has %q, want %q", file, got, want)
		}
		return err
	})
}

// wantSubPath waits until a file that a container mounts by subPath has a text.
func (s *site) wantSubPath(t *testing.T, namespace, workload, file, want string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		got, err := s.Kubectl(t.Context(), "--namespace="+namespace, "exec", workload, "--", "cat", file)
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("%s of %s has %q, want %q", file, workload, got, want)
		}
		return err
	})
}

// TestFiveMinutes types the commands of docs/adoption.md, for a cluster with the label and for one with convert.
func TestFiveMinutes(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.importExampleImages(t)
	const page = "docs/adoption.md"
	folder, plugin := t.TempDir(), filepath.Dir(environment.Plugin(t))
	expect.NoError(t, os.Symlink(filepath.Join(s.Repo(), "deploy"), filepath.Join(folder, "deploy")))
	t.Cleanup(func() {
		undo := "helm upgrade liveconfig deploy/chart --namespace " + driverNamespace + " --reset-then-reuse-values --set admission.volumes=false\n" +
			"kubectl delete namespace shop --wait"
		if _, err := s.ShellIn(context.Background(), folder, undo); err != nil {
			t.Error(err)
		}
	})
	// A busy machine takes longer than a reader.
	patient := strings.NewReplacer("sleep 5", "sleep 15", "sleep 1\n", "sleep 5\n")
	types := func(heading string) string {
		t.Helper()
		code, err := s.CodeAfter(page, heading)
		expect.NoError(t, err)
		printed, err := s.ShellIn(t.Context(), folder, "export PATH="+plugin+":$PATH\n"+patient.Replace(code))
		expect.NoError(t, err)
		return printed
	}
	types("## A workload of Kubernetes' own")
	if printed := types("## One label on the namespace"); !strings.HasSuffix(printed, "hello again") {
		t.Errorf("with a label, the page's commands print %q", printed)
	}
	types("The last command prints `hello again`. To go back, remove the label and restart:")
	if printed := types("## One command for the manifests"); !strings.HasSuffix(printed, "hello once more") {
		t.Errorf("with convert, the page's commands print %q", printed)
	}
}
