package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/describe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// describer runs `kubectl liveconfig describe` in a namespace.
type describer struct{ plugin }

func (d describer) describe(t *testing.T, args ...string) string {
	t.Helper()
	got := d.call(t, append([]string{"describe"}, args...)...)
	if got.status != 0 {
		t.Fatalf("describe %v: exit %d\n%s", args, got.status, got.err)
	}
	if strings.Contains(got.out+got.err, "marked") {
		t.Errorf("describe %v prints what is in objects:\n%s%s", args, got.out, got.err)
	}
	return got.out
}

// awaitDescribed waits until a description has all of some texts, and returns it.
func (d describer) awaitDescribed(t *testing.T, target string, flags []string, texts ...string) string {
	t.Helper()
	var got string
	expect.Eventually(t, startTimeout, func() error {
		got = d.describe(t, append([]string{target}, flags...)...)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("describe %s does not print %q, but\n%s", target, text, got)
			}
		}
		return nil
	})
	return got
}

// TestDescribeOnANode has the plugin report what the driver of a pod's node knows: what is current, what lags and why, and
// what a pod waits for.
func TestDescribeOnANode(t *testing.T) {
	s := on(t, realnode.Containerd2())
	d := describer{plugin{site: s, namespace: s.namespace(t)}}
	s.putConfigMap(t, d.namespace, "app", map[string]string{"file": "marked 1"})
	s.putConfigMap(t, d.namespace, "other", map[string]string{"file": "marked 1"})
	web := boxPod(d.namespace, "", map[string]string{
		"sources": `[{configMap: {name: app, items: [{key: file, path: app}]}}, {configMap: {name: other, items: [{key: file, path: other}]}}]`,
	})
	labels := map[string]string{"app": "web"}
	if _, err := s.Client().AppsV1().Deployments(d.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: web.Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.create(t, boxPod(d.namespace, "denied", map[string]string{"secret": "app"}))

	d.awaitDescribed(t, "deployment/web", nil, "Pods: 2 current")
	d.awaitDescribed(t, "pod/denied", nil, "config: publishing", "Problem (Denied", "kind: RoleBinding", "WaitingForSource")

	s.putConfigMap(t, d.namespace, "app", map[string]string{"file": "marked 2"})
	d.awaitDescribed(t, "deployment/web", nil, "Pods: 2 current", "Projected")
	d.wantVersions(t, versions.Current)

	// One required source that is gone freezes the volume, also for the other source.
	maps := s.Client().CoreV1().ConfigMaps(d.namespace)
	expect.NoError(t, maps.Delete(t.Context(), "other", metav1.DeleteOptions{}))
	pods, err := s.Client().CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	expect.NoError(t, err)
	for _, pod := range pods.Items { // The two are watched apart.
		s.wantEvent(t, &pod, "SourceMissing", "other")
	}
	s.putConfigMap(t, d.namespace, "app", map[string]string{"file": "marked 3"})
	text := d.awaitDescribed(t, "deployment/web", nil, "Pods: 2 lagging", "Problem (Missing", "does not exist", "SourceMissing")
	if testing.Verbose() {
		t.Log(text)
	}
	d.wantVersions(t, versions.Lagging)

	// A user who may not get the objects sees the newest versions that the node knows.
	user := d.seer(t)
	d.awaitDescribed(t, "deployment/web", []string{"--as=" + user}, "the newest that a node knows", "Pods: 2 lagging",
		"you may not get configmap "+d.namespace+"/app", "auth can-i get configmap/app", "some Events: events is forbidden")
}

// seer returns a user who may see workloads, and ask drivers.
func (d describer) seer(t *testing.T) string {
	t.Helper()
	user := "system:serviceaccount:" + d.namespace + ":default"
	t.Cleanup(func() {
		if _, err := d.Kubectl(context.Background(), "--namespace="+driverNamespace, "delete", "role,rolebinding", "ask-drivers"); err != nil {
			t.Error(err)
		}
	})
	for _, words := range []string{
		"--namespace=" + d.namespace + " create role see --verb=get,list --resource=deployments.apps,replicasets.apps,pods",
		"--namespace=" + d.namespace + " create rolebinding see --role=see --serviceaccount=" + d.namespace + ":default",
		"--namespace=" + driverNamespace + " create role ask-drivers --verb=list,create --resource=pods,pods/portforward",
		"--namespace=" + driverNamespace + " create rolebinding ask-drivers --role=ask-drivers --serviceaccount=" + d.namespace + ":default",
	} {
		if _, err := d.Kubectl(t.Context(), strings.Fields(words)...); err != nil {
			t.Fatal(err)
		}
	}
	expect.Eventually(t, startTimeout, func() error {
		_, err := d.Kubectl(t.Context(), "--namespace="+driverNamespace, "--as="+user, "auth", "can-i", "create", "pods/portforward")
		return err
	})
	return user
}

// wantVersions wants the JSON of configmap/app to be what its pods and the API server have.
func (d describer) wantVersions(t *testing.T, want versions.State) {
	t.Helper()
	isInFiles := want == versions.Current
	object, err := d.Client().CoreV1().ConfigMaps(d.namespace).Get(t.Context(), "app", metav1.GetOptions{})
	expect.NoError(t, err)
	var all []describe.Description
	expect.NoError(t, json.Unmarshal([]byte(d.describe(t, "deployment/web", "-o", "json")), &all))
	if len(all) != 1 || len(all[0].Pods) != 2 || len(all[0].Unknown) != 0 || len(all[0].Objects) != 2 {
		t.Fatalf("describe = %+v, want one workload with 2 pods and 2 objects, of which all is known", all)
	}
	if got := all[0].Objects[0].Version; got == nil || got.ResourceVersion != object.ResourceVersion || all[0].Objects[0].Pods[want] != 2 {
		t.Errorf("configmap/app = %+v, want version %s and 2 pods %s", all[0].Objects[0], object.ResourceVersion, want)
	}
	for _, pod := range all[0].Pods {
		v := pod.Volumes[0]
		app := v.Sources[0]
		if app.State != want || v.Digest == "" || v.ProjectedAt.IsZero() || (v.Problem == nil) != isInFiles {
			t.Errorf("the volume of pod %s = %+v, want one with a digest and a time, that is %s", pod.Name, v, want)
		}
		if got := app.Projected != nil && app.Projected.ResourceVersion == object.ResourceVersion; got != isInFiles {
			t.Errorf("pod %s has %+v in its files, and the API server %s: equal is %v, want %v", pod.Name, app.Projected, object.ResourceVersion, got, isInFiles)
		}
		if got := time.Since(v.ProjectedAt); got < 0 || got > startTimeout {
			t.Errorf("the files of pod %s were written %s ago", pod.Name, got)
		}
	}
}
