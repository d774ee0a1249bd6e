package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// TestWhatRunsOnlyEnvsubst are containers that the driver can do without.
func TestWhatRunsOnlyEnvsubst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command []string
		want    bool
	}{
		"the program":       {[]string{"envsubst"}, true},
		"with its path":     {[]string{"/usr/bin/envsubst", "$A"}, true},
		"a shell":           {[]string{"sh", "-c", "envsubst < /t/a > /o/a"}, true},
		"a pipe":            {[]string{"sh", "-ec", "cat /t/a | envsubst > /o/a && chmod 0600 /o/a"}, true},
		"a loop":            {[]string{"sh", "-c", "set -eu\nfor f in /t/*; do envsubst < $f > /o/${f##*/}; done\n"}, true},
		"something more":    {[]string{"sh", "-c", "envsubst < /t/a > /o/a; curl http://x"}, false},
		"in another word":   {[]string{"sh", "-c", "echo envsubst"}, false},
		"something else":    {[]string{"sh", "-c", "cp /t/a /o/a"}, false},
		"a text in a shell": {[]string{"sh", "-c", "python3 -c 'envsubst'"}, false},
		"an image's own":    {nil, false},
	} {
		if got := onlyRunsEnvsubst(corev1.Container{Command: test.command}); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if len(test.command) < 2 {
			continue
		}
		if got := onlyRunsEnvsubst(corev1.Container{Command: test.command[:1], Args: test.command[1:]}); got != test.want {
			t.Errorf("%s, as args: %v, want %v", name, got, test.want)
		}
	}
}

const renderedPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
    - name: other
      command: [sh, -c, sleep 1]
    - name: render
      command: [sh, -c, envsubst < /templates/app.conf > /etc/app/app.conf]
      envFrom:
        - {secretRef: {name: "on"}, prefix: DB_}
        - {configMapRef: {name: defaults, optional: true}}
      env:
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: app, key: "12"}}}
        - {name: REGION, valueFrom: {configMapKeyRef: {name: region, key: name, optional: true}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: PORT, value: "8080"}
      volumeMounts: [{name: templates, mountPath: /templates}, {name: out, mountPath: /etc/app}]
  containers: [{name: app, volumeMounts: [{name: out, mountPath: /etc/app}]}]
  volumes: [{name: templates, configMap: {name: app-templates}}, {name: out, emptyDir: {}}]
`

// TestNoteOnEnvsubst is what convert prints about a pod, and the driver takes it.
func TestNoteOnEnvsubst(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(renderedPod), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	c := New(&session.Session{
		IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, ConfigFlags: genericclioptions.NewConfigFlags(false),
	})
	c.SetArgs([]string{"-f", file})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	_, note, found := strings.Cut(errOut.String(), file+":8: Pod/web: note: init container render only runs envsubst")
	if !found || strings.Contains(note, "init container other") {
		t.Fatalf("it prints:\n%s", errOut.String())
	}
	_, block, _ := strings.Cut(note, "\n")
	want := `  sources: |
    - configMap: {name: app-templates, expand: {syntax: "${}"}}
  values: |
    - secret: {name: "on", prefix: DB_}
    - configMap: {name: defaults, optional: true}
    - secret: {name: app, items: [{key: "12", path: PASSWORD}]}
    - configMap: {name: region, items: [{key: name, path: REGION}], optional: true}
    - pod: {name: POD}
  # IP has no object: write it into the text, or ${IP:-VALUE} there
  # PORT has no object: write it into the text, or ${PORT:-VALUE} there
  # only ${NAME} is replaced, not $NAME, and a name without a value is a mistake
`
	if block != want {
		t.Errorf("what to write (-want +got):\n%s", cmp.Diff(want, block))
	}
	var attributes map[string]string
	if err := yaml.Unmarshal([]byte(block), &attributes); err != nil {
		t.Fatal(err)
	}
	if spec, err := api.Parse(attributes, "default"); err != nil || len(spec.Values) != 5 || !spec.HasExpand() {
		t.Errorf("the driver reads %+v, %v", spec, err)
	}
}
