package rollout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// soon is how long something may take that takes a few seconds when nothing else runs on the machine.
const soon = 90 * time.Second

// quiet is the quiet period of the tests' controllers.
const quiet = 500 * time.Millisecond

func theCluster(t testing.TB) *cluster.Cluster {
	t.Helper()
	fakenodes.ForTest(t)
	return cluster.ForTest(t)
}

// site is one test's namespace, and the controller that works in it.
type site struct {
	t         testing.TB
	c         *cluster.Cluster
	client    kubernetes.Interface
	stage     *fakenodes.Nodes
	namespace string
	// args are the controller's flags, log is where it writes.
	args    []string
	log     string
	process *process.Process
	// beats counts calls of beat.
	beats int
}

// newSite returns a site with a running controller, which has further flags.
func newSite(t testing.TB, args ...string) *site {
	t.Helper()
	s := newIdleSite(t, args...)
	s.start()
	return s
}

// newIdleSite returns a site whose controller does not run yet.
func newIdleSite(t testing.TB, args ...string) *site {
	t.Helper()
	_, kubeconfig := program(t)
	return newIdleSiteIn(t, theCluster(t), fakenodes.ForTest(t), kubeconfig, args...)
}

// newIdleSiteIn returns an idle site in a cluster with nodes, whose controller has a kubeconfig.
func newIdleSiteIn(t testing.TB, c *cluster.Cluster, stage *fakenodes.Nodes, kubeconfig string, args ...string) *site {
	t.Helper()
	s := &site{
		t: t, c: c, client: c.Client(), stage: stage, namespace: cluster.NewNamespace(t, c),
		log: filepath.Join(t.TempDir(), "controller.log"),
	}
	s.args = append([]string{
		"--kubeconfig=" + kubeconfig, "--namespaces=" + s.namespace, "--leader-elect=false", "--quiet-period=" + quiet.String(), "-v=4",
	}, args...)
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the controller's log ends with:\n%s", process.Tail(s.log, 16<<10))
		}
	})
	return s
}

// start starts the controller.
func (s *site) start() {
	s.t.Helper()
	binary, _ := program(s.t)
	p, err := process.Start(context.WithoutCancel(s.t.Context()), process.Config{Path: binary, Args: s.args, LogFile: s.log})
	expect.NoError(s.t, err)
	s.process = p
}

// stop ends the controller cleanly.
func (s *site) stop() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	if err := s.process.Stop(10 * time.Second); err != nil {
		s.t.Errorf("stop the controller: %v", err)
	}
	s.process = nil
}

// kill ends the controller by SIGKILL.
func (s *site) kill() {
	s.t.Helper()
	expect.NoError(s.t, s.process.Kill())
	s.process = nil
}

// kubectl runs kubectl in the site's namespace and returns what it prints.
func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.c.Kubectl(s.t.Context(), append([]string{"--namespace=" + s.namespace}, args...)...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// apply applies a manifest, with further flags of kubectl apply.
func (s *site) apply(manifest string, flags ...string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "manifest.yaml")
	expect.NoError(s.t, os.WriteFile(path, []byte(manifest), 0o600))
	s.kubectl(append([]string{"apply", "--filename=" + path}, flags...)...)
}

// putConfigMap makes a ConfigMap of one key, or edits it.
func (s *site) putConfigMap(name, value string) {
	s.t.Helper()
	o := fixture.ConfigMap(name, map[string]string{"config": value})
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), o, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		s.edit(name, value)
	case err != nil:
		s.t.Fatal(err)
	}
}

// deployment is a manifest of a Deployment of one container, which mounts foo and is triggered by it.
func deployment(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  annotations: {liveconfig.internal/triggered-by: configmap/foo}
spec:
  replicas: 2
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: example.test/main:1
        volumeMounts: [{name: config, mountPath: /etc/foo}]
      volumes:
      - name: config
        configMap: {name: foo}
`, name)
}

// eventually waits until check returns nil.
func (s *site) eventually(check func() error) {
	s.t.Helper()
	expect.Eventually(s.t, soon, check)
}

// deployment returns a Deployment as it is now.
func (s *site) deployment(name string) *appsv1.Deployment {
	s.t.Helper()
	d, err := s.client.AppsV1().Deployments(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	expect.NoError(s.t, err)
	return d
}

// rolledOut is reached for a Deployment.
func (s *site) rolledOut(name string, values map[string]string) map[string]string {
	s.t.Helper()
	return s.reached("deployment/"+name, values)
}

// reached waits until a workload has turned to copies with these values, and all its pods run with them. It returns the copies'
// names by source.
func (s *site) reached(ref string, values map[string]string) map[string]string {
	s.t.Helper()
	copies := s.turned(ref, values)
	s.eventually(func() error { // A deadline of seconds is passed on a busy machine at times, and then met.
		_, err := s.c.Kubectl(s.t.Context(), "--namespace="+s.namespace, "rollout", "status", ref, "--timeout="+soon.String())
		return err
	})
	return copies
}

// turned waits until the template of a workload, such as deployment/web, has copies for these sources with these values. It
// returns the copies' names by source.
func (s *site) turned(ref string, values map[string]string) map[string]string {
	s.t.Helper()
	copies := map[string]string{}
	s.eventually(func() error {
		_, template := s.see(ref)
		config, err := trigger.ParseConfig(template.Annotations[trigger.ConfigAnnotation])
		if err != nil {
			return err
		}
		for source, value := range values {
			o, err := trigger.ParseObject(source)
			if err != nil {
				return err
			}
			made, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), config[o], metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("the copy of %s: %w", o, err)
			}
			if got := made.Data["config"]; got != value {
				return fmt.Errorf("the copy %s has %q, want %q", made.Name, got, value)
			}
			copies[source] = made.Name
		}
		return nil
	})
	return copies
}

// replicaSets returns the ReplicaSets of the namespace.
func (s *site) replicaSets() []appsv1.ReplicaSet {
	s.t.Helper()
	list, err := s.client.AppsV1().ReplicaSets(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	expect.NoError(s.t, err)
	return list.Items
}

// event waits for an Event of a reason about something, such as Deployment/web, whose note has a text.
func (s *site) event(about, reason, text string) {
	s.t.Helper()
	s.eventually(func() error {
		list, err := s.client.CoreV1().Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Source.Component != "liveconfig-controller" {
				continue
			}
			on := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
			seen = append(seen, on+" "+e.Reason+": "+e.Message)
			if on == about && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no Event %s about %s with %q, but %q", reason, about, text, seen)
	})
}
