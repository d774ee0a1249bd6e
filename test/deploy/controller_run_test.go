package deploy

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// triggered is a workload whose pods read a Secret with their own account.
const triggered = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: TEAM}
data: {level: high}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: TEAM}
stringData: {word: marked}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: TEAM}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: TEAM}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: default, namespace: TEAM}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: TEAM
  annotations: {liveconfig.internal/triggered-by: "TRIGGERS"}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
      volumes:
        - {name: settings, configMap: {name: settings}}
        - {name: password, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {secret: password}}}
`

// starts runs the controller as its pod would, until the test ends, and returns where its log is.
func (in *installed) starts(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, log := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "log")
	if err := in.cluster.WriteServiceAccountKubeconfig(t.Context(), kubeconfig, in.namespace, in.namespace+"-controller"); err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig=" + kubeconfig}
	for _, arg := range in.deployment(t).Spec.Template.Spec.Containers[0].Args {
		if !strings.HasPrefix(arg, "--http-endpoint=") { // Every controller of this machine would take the same port.
			args = append(args, arg)
		}
	}
	p, err := process.Start(context.WithoutCancel(t.Context()), process.Config{
		Path: program, Args: args, LogFile: log,
		Env: append(os.Environ(), "POD_NAME=controller-0", "POD_NAMESPACE="+in.namespace),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(20 * time.Second); err != nil {
			t.Errorf("stop the controller: %v\n%s", err, process.Tail(log, 4096))
		}
	})
	return log
}

// wantSoon waits for something that the controller does.
func wantSoon(t *testing.T, log, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, done); err != nil {
		t.Fatalf("%s: %v; the controller's log ends with:\n%s", what, err, process.Tail(log, 4096))
	}
}

// isPointed looks whether the workload's pods use copies, and nothing else.
func (in *installed) isPointed(ctx context.Context, secrets bool) (bool, error) {
	web, err := in.cluster.Client().AppsV1().Deployments(in.team).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	volumes := web.Spec.Template.Spec.Volumes
	isCopy := func(name, of string) bool { return strings.HasPrefix(name, of+"-") }
	return isCopy(volumes[0].ConfigMap.Name, "settings") &&
		isCopy(volumes[1].CSI.VolumeAttributes["secret"], "password") == secrets, nil
}

// wantNoRefusal wants that the controller has asked for something, and been refused nothing.
func (in *installed) wantNoRefusal(t *testing.T, since time.Time) {
	t.Helper()
	requests, err := in.cluster.Requests(since)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, r := range requests {
		if r.User != cluster.ServiceAccountUser(in.namespace, in.namespace+"-controller") {
			continue
		}
		asked++
		if r.Code == http.StatusForbidden {
			t.Errorf("refused: %s", r)
		}
	}
	if asked == 0 {
		t.Error("the controller has asked for nothing")
	}
}

// TestControllerWorksWithItsRights runs the program with its account in every mode. One runs at a time,
// and no other test beside it: some look at all namespaces.
func TestControllerWorksWithItsRights(t *testing.T) {
	program := environment.AsShipped(t, "liveconfig-controller")
	for mode, args := range controllerModes() {
		t.Run(mode, func(t *testing.T) {
			since := time.Now()
			in := installController(t, args)
			secrets := !strings.HasSuffix(mode, "without Secrets")
			triggers := "configmap/settings"
			if secrets {
				triggers += ",secret/password"
			}
			in.applyText(t, strings.NewReplacer("TEAM", in.team, "TRIGGERS", triggers).Replace(triggered))
			log := in.starts(t, program)
			if strings.HasSuffix(mode, "as a dry run") {
				wantSoon(t, log, "wait for what it would do", func(context.Context) (bool, error) {
					return strings.Contains(process.Tail(log, 1<<16), "Would "), nil
				})
			} else {
				wantSoon(t, log, "wait for the pods to use copies", func(ctx context.Context) (bool, error) { return in.isPointed(ctx, secrets) })
			}
			in.wantNoRefusal(t, since)
		})
	}
}
