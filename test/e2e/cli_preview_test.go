package e2e_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// previewed is a pod whose volumes are compared with what the plugin prints beforehand.
type previewed struct {
	// pod is a manifest whose volumes are taken, and objects are those that they hold.
	pod     string
	objects []string
}

// previewedPods has volumes of examples, and one pod with what those do not have: files of several keys, other policies, and
// the kubelet's own volumes beside ours.
func previewedPods() map[string]previewed {
	const several, redis = "examples/several-sources/", "examples/redis/"
	return map[string]previewed{
		"optional-override": { // An fsGroup; the overrides are not there.
			pod: "examples/optional-override/pod.yaml", objects: []string{"examples/optional-override/configmap.yaml"},
		},
		"several-sources": {pod: several + "pod.yaml", objects: []string{several + "configmaps.yaml", several + "secret.yaml"}},
		"redis":           {pod: redis + "pod.yaml", objects: []string{redis + "configmap.yaml", redis + "secret.yaml"}},
		"tls-owner":       {pod: "examples/tls-owner/pod.yaml", objects: []string{"tls.yaml"}},
		"kinds":           {pod: "kinds.yaml", objects: []string{several + "configmaps.yaml", several + "secret.yaml"}},
	}
}

// TestPreviewIsWhatTheNodeHas compares what the plugin writes before the pods exist with what is in them then.
func TestPreviewIsWhatTheNodeHas(t *testing.T) { //nolint:tparallel // It shares the node with tests that stop parts of it.
	s := on(t, realnode.Containerd2())
	p := newPreviewer(t, s)
	pods := map[string]*corev1.Pod{}
	for name, c := range previewedPods() {
		pods[name] = p.prepare(t, name, c)
	}
	expected := map[string]map[string]string{}
	for name, c := range previewedPods() {
		expected[name] = p.preview(t, name, p.flags(name, c.objects))
	}
	p.apply(t)
	for _, pod := range pods {
		s.create(t, pod)
	}
	for name, pod := range pods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := s.awaitReady(t, pod)
			if diff := cmp.Diff(p.inPod(t, pod), expected[name]); diff != "" {
				t.Errorf("preview of files (-in the pod +preview):\n%s", diff)
			}
			if diff := cmp.Diff(expected[name], p.preview(t, name+"-live", []string{"pod/" + pod.Name})); diff != "" {
				t.Errorf("preview of the live pod (-of files +live):\n%s", diff)
			}
			if got := p.call(t, "preview", "pod/"+pod.Name, "--diff"); got != (result{}) {
				t.Errorf("--diff = %+v, want no difference", got)
			}
		})
	}
}

// previewer runs the plugin in a namespace.
type previewer struct {
	plugin

	dir string
}

func newPreviewer(t *testing.T, s *site) *previewer {
	t.Helper()
	p := &previewer{plugin: plugin{site: s, namespace: s.namespace(t)}, dir: t.TempDir()}
	for name, text := range map[string]string{"tls.yaml": previewedTLS, "kinds.yaml": previewedKinds} {
		expect.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
	}
	return p
}

// path returns where a file of the checkout, or one of the test's, is.
func (p *previewer) path(name string) string {
	if strings.HasPrefix(name, "examples/") {
		return filepath.Join(p.Repo(), name)
	}
	return filepath.Join(p.dir, name)
}

// prepare makes a manifest with the volumes of another one, in a pod that may look at them all.
func (p *previewer) prepare(t *testing.T, name string, c previewed) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(p.path(c.pod))
	expect.NoError(t, err)
	var from corev1.Pod
	expect.NoError(t, yaml.Unmarshal(text, &from))
	pod := boxPod(p.namespace, name, nil)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Spec.ServiceAccountName = from.Spec.ServiceAccountName
	if security := from.Spec.SecurityContext; security != nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: security.FSGroup}
	}
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil
	for _, v := range from.Spec.Volumes {
		if v.EmptyDir != nil {
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		mount := corev1.VolumeMount{Name: v.Name, MountPath: mountPath + "/" + v.Name, ReadOnly: true}
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, mount)
	}
	written, err := yaml.Marshal(pod)
	if err == nil {
		err = os.WriteFile(p.path("pod-"+name), written, 0o600)
	}
	expect.NoError(t, err)
	return pod
}

func (p *previewer) flags(name string, objects []string) []string {
	flags := []string{"-f", p.path("pod-" + name)}
	for _, object := range objects {
		flags = append(flags, "-f", p.path(object))
	}
	return flags
}

// apply makes all objects, and lets service accounts read the Secrets.
func (p *previewer) apply(t *testing.T) {
	t.Helper()
	flags := []string{"--namespace=" + p.namespace, "apply"}
	given := map[string]bool{}
	for _, c := range previewedPods() {
		for _, object := range c.objects {
			given[object] = true
		}
	}
	for _, folder := range []string{"several-sources", "redis", "tls-owner"} {
		given["examples/"+folder+"/rbac.yaml"] = true
	}
	for object := range given {
		flags = append(flags, "-f", p.path(object))
	}
	if _, err := p.Kubectl(t.Context(), flags...); err != nil {
		t.Fatal(err)
	}
}

// preview has a preview written and returns, by path, what a file or directory is: by the list its mode and owner, and by the
// folder its content. Both must agree.
func (p *previewer) preview(t *testing.T, folder string, args []string) map[string]string {
	t.Helper()
	dir := p.path("folder-" + folder)
	got := p.call(t, append([]string{"preview", "-o", dir, "--show-secrets"}, args...)...)
	if got.status != 0 {
		t.Fatal(got.err)
	}
	found := map[string]string{}
	volume := ""
	for line := range strings.Lines(got.out) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "pod/"):
			volume = fields[2]
		case fields[0] != "MODE":
			path := filepath.Join(volume, fields[4])
			found[path] = fields[0] + " " + fields[1] + " " + contentOf(t, filepath.Join(dir, path))
			if got := statOf(t, filepath.Join(dir, path)); fields[4] != "." && got != fields[0]+" "+fields[1] {
				t.Errorf("%s is written as %s and listed as %s %s", path, got, fields[0], fields[1])
			}
		}
	}
	written := 0
	err := filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { written++; return nil })
	if written--; err != nil || written != len(found) { // Without the folder itself.
		t.Errorf("%d files and directories are written, %d listed, %v", written, len(found), err)
	}
	return found
}

// contentOf returns a file's content, and none for a directory.
func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, syscall.EISDIR) {
		t.Fatal(err)
	}
	return string(content)
}

// statOf returns mode and owner as the list has them.
func statOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	expect.NoError(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("%s has no owner", path)
	}
	mode := []byte(info.Mode().Perm().String())
	if info.IsDir() {
		mode[0] = 'd'
	}
	if info.Mode()&fs.ModeSetgid != 0 {
		mode[6] = 's'
	}
	return fmt.Sprintf("%s %d:%d", mode, stat.Uid, stat.Gid)
}

// inPod returns what is in the volumes of a pod, and leaves out what only the writer of a volume looks at.
func (p *previewer) inPod(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	const script = `cd "$1" && find -L . -path '*/..*' -prune -o -print | while read -r f; do
  if [ -d "$f" ]; then content=; else content=$(base64 -w0 "$f"); fi
  echo "$f|$(stat -L -c '%A %u:%g' "$f")|$content"
done`
	found := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		for line := range strings.Lines(p.exec(t, pod, "sh", "-c", script, "sh", mountPath+"/"+v.Name)) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
			if len(fields) != 3 {
				t.Fatalf("a line of the listing is %q", line)
			}
			content, err := base64.StdEncoding.DecodeString(fields[2])
			expect.NoError(t, err)
			found[filepath.Join(v.Name, fields[0])] = fields[1] + " " + string(content)
		}
	}
	return found
}

const previewedTLS = `
apiVersion: v1
kind: Secret
metadata: {name: redis-tls}
data: {tls.crt: AAEC}
stringData: {tls.key: "key\n"}
`

const previewedKinds = `
apiVersion: v1
kind: Pod
metadata: {name: kinds}
spec:
  serviceAccountName: prometheus
  securityContext: {fsGroup: 2000}
  containers: []
  volumes:
    - name: as
      csi:
        driver: csi.liveconfig.internal
        readOnly: true
        volumeAttributes:
          sources: |
            - configMap: {name: shop, as: {path: etc/shop.json, format: json}}
            - secret: {name: scrape, items: [{key: password, path: PASSWORD}], as: {path: etc/app.env, format: dotenv, mode: 0400}}
            - configMap: {name: billing, as: {path: etc/all.yaml, format: yaml}}
            - configMap: {name: shop, items: [{key: targets.yml, path: etc/deep/targets.yml, mode: 0600}]}
    - name: owned
      csi:
        driver: csi.liveconfig.internal
        readOnly: true
        volumeAttributes: {configMap: shop, uid: "7", defaultMode: "0400"}
    - name: replace
      csi:
        driver: csi.liveconfig.internal
        readOnly: true
        volumeAttributes:
          configMap: shop
          items: "[{key: targets.yml, path: d/targets.yml}]"
          gid: "8"
          updatePolicy: Replace
    - name: nothing
      csi:
        driver: csi.liveconfig.internal
        readOnly: true
        volumeAttributes: {configMap: none, optional: "true"}
    - {name: in-tree-map, configMap: {name: shop, defaultMode: 0400}}
    - {name: in-tree-secret, secret: {secretName: scrape, items: [{key: password, path: d/password, mode: 0440}]}}
    - name: in-tree-several
      projected:
        sources:
          - configMap: {name: shop, items: [{key: targets.yml, path: d/e/shop.yml}]}
          - configMap: {name: none, optional: true}
          - secret: {name: scrape}
`
