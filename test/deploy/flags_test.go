package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// usage is what a program of this checkout prints about its flags.
func usage(t *testing.T, program string) []byte {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), environment.AsShipped(t, program), "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantFlagsTaken gives a program flags and one mistake beside: it then prints every mistake, and does not start.
func wantFlagsTaken(t *testing.T, program, mistake, said string, flags []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(flags, mistake)...)
	cmd.Env = append(cmd.Environ(), "POD_NAMESPACE="+namespace)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the program has taken a mistake")
	}
	if got, want := string(out), filepath.Base(program)+": "+said+"\n"; got != want {
		t.Errorf("with %q the program says %q, want %q", flags, got, want)
	}
}

// flagsIn returns the flags of the driver or the controller as the kubelet would give them.
func flagsIn(t *testing.T, text, kind, component string) []string {
	t.Helper()
	var d appsv1.Deployment // What is read of it is the same in a DaemonSet.
	for _, object := range objects(t, text) {
		if object["kind"] != kind {
			continue
		}
		document, err := yaml.Marshal(object)
		if err == nil {
			err = yaml.Unmarshal(document, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 || len(containers[0].Args) == 0 {
		t.Fatalf("the %s has no flags", component)
	}
	var args []string
	for _, arg := range containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(NODE_NAME)", "node-1"))
	}
	return args
}
