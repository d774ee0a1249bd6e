package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// selector has pods that select objects of two namespaces, and asks the plugin about them.
type selector struct {
	plugin

	other string
}

// put makes or changes a ConfigMap that the selector finds.
func (s selector) put(t *testing.T, namespace, name, key, value string) {
	t.Helper()
	object := fixture.ConfigMap(name, map[string]string{key: value})
	object.Labels = map[string]string{"team": "web"}
	expect.NoError(t, fixture.Put(t.Context(), s.Client().CoreV1().ConfigMaps(namespace), object))
}

func (s selector) kubectl(t *testing.T, words string) {
	t.Helper()
	_, err := s.Kubectl(t.Context(), strings.Fields(words)...)
	expect.NoError(t, err)
}

func newSelector(t *testing.T) selector {
	t.Helper()
	site := on(t, realnode.Containerd2())
	s := selector{plugin{site: site, namespace: site.namespace(t)}, site.namespace(t)}
	s.put(t, s.namespace, "a", "x", "1")
	s.put(t, s.other, "b", "y", "1")
	return s
}

// create makes a pod that selects the objects of both namespaces.
func (s selector) create(t *testing.T) *corev1.Pod {
	t.Helper()
	return s.site.create(t, boxPod(s.namespace, "web", map[string]string{"sources": fmt.Sprintf(
		"[{configMap: {labelSelector: {matchLabels: {team: web}}, namespaces: [%s, %s], path: $(namespace)/$(key)}}]", s.namespace, s.other)}))
}

// TestSelectionsInThePlugin: describe and why name the rights that a pod waits for, and with them status, wait, why and describe
// follow an edit of a selected object into its files, and name the one whose path is taken.
func TestSelectionsInThePlugin(t *testing.T) {
	s := newSelector(t)
	pod := s.create(t)
	own, others := mountPath+"/"+s.namespace, mountPath+"/"+s.other
	describer{s.plugin}.awaitDescribed(t, "pod/web", nil, "Problem (Denied", "list-configmaps", "kind: Role")
	s.call(t, "why", "pod/web").want(t, 1, "STOP rights", "kubectl liveconfig grant")
	s.kubectl(t, "--namespace="+s.other+" create role list --verb=list,watch --resource=configmaps")
	s.kubectl(t, "--namespace="+s.other+" create rolebinding list --role=list --serviceaccount="+s.namespace+":default")
	pod = s.awaitReady(t, pod)
	s.wantFile(t, pod, "main", own+"/x", "1")
	s.wantFile(t, pod, "main", others+"/y", "1")
	s.call(t, "status", "pod/web").want(t, 0, "configmap/[team=web] in "+s.other)

	s.put(t, s.namespace, "a", "x", "2")
	s.call(t, "wait", "pod/web", "--for=projected=configmap/a", "--timeout=60s").want(t, 0,
		"1 of 1 running pods have", "configmap/[team=web] in "+s.other+" at version")
	if got := s.exec(t, pod, "cat", own+"/x"); got != "2" {
		t.Errorf("the pod has %q after the wait, want 2", got)
	}
	s.call(t, "why", "pod/web", own+"/x").want(t, 0,
		"edited configmap/a, which is one of configmap/[team=web] ", "the container sees the edit")
	s.call(t, "why", "pod/web", others+"/y").want(t, 0,
		"edited configmap/b in "+s.other+", which is one of configmap/[team=web] in "+s.other, "the container sees the edit")

	s.put(t, s.namespace, "c", "x", "younger")
	taken := fmt.Sprintf("key x of configmap %s/c at path %[1]s/x, which configmap %[1]s/a has", s.namespace)
	s.wantEvent(t, pod, "PathTaken", taken)
	s.call(t, "describe", "pod/web").want(t, 0, taken)
	s.wantFile(t, pod, "main", own+"/x", "2")
}
