package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// steady are pods that read their files all the time, while something happens to the node.
type steady struct {
	*site

	namespace string
	pods      []*corev1.Pod
	version   int // Of the content that all pods should have.
}

// steadyPods starts pods that hold on to files of one ConfigMap: by Atomic, by Replace and by InPlace.
func (s *site) steadyPods(t *testing.T) *steady {
	t.Helper()
	st := &steady{site: s, namespace: s.namespace(t)}
	st.edit(t)
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		attributes := map[string]string{"configMap": "content", "updatePolicy": policy}
		pod := boxPod(st.namespace, strings.ToLower(policy), attributes)
		pod.Spec.Containers[0].Command = []string{"box", "hold", mountPath + "/version"}
		st.pods = append(st.pods, s.create(t, pod))
	}
	for i, pod := range st.pods {
		st.pods[i] = s.awaitReady(t, pod)
	}
	st.check(t)
	return st
}

// edit changes the content.
func (st *steady) edit(t testing.TB) {
	t.Helper()
	st.version++
	st.putConfigMap(t, st.namespace, "content", map[string]string{"version": strconv.Itoa(st.version)})
}

// check wants that all pods see the content, that none has ever lost a file, and that each volume is mounted once.
func (st *steady) check(t testing.TB) {
	t.Helper()
	for _, pod := range st.pods {
		st.wantFile(t, pod, "", mountPath+"/version", strconv.Itoa(st.version))
		st.wantHeld(t, pod)
		st.wantOneMount(t, pod)
	}
	st.wantRecords(t)
}

// goOn checks the pods, changes the content, and checks them again.
func (st *steady) goOn(t testing.TB) {
	t.Helper()
	st.check(t)
	st.edit(t)
	st.check(t)
}

// wantHeld reads what the pod prints about its file.
func (st *steady) wantHeld(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	var text string
	expect.Eventually(t, startTimeout, func() error { // It may have been started just now.
		logs, err := st.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err == nil && len(logs) == 0 {
			err = fmt.Errorf("pod %s says nothing yet", pod.Name)
		}
		text = string(logs)
		return err
	})
	if text != "holding\n" && text != "holding" {
		t.Fatalf("pod %s, which reads its file all the time, says:\n%s", pod.Name, text)
	}
}

// wantOneMount looks at the node's mount table.
func (s *site) wantOneMount(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	for _, v := range pod.Spec.Volumes {
		if v.CSI == nil {
			continue
		}
		mounts, err := s.Mounts(string(pod.UID) + "/volumes/kubernetes.io~csi/" + v.Name + "/mount ")
		expect.NoError(t, err)
		if len(mounts) != 1 {
			t.Fatalf("volume %s of pod %s has %d mounts, want 1:\n%s", v.Name, pod.Name, len(mounts), strings.Join(mounts, "\n"))
		}
	}
}

// wantRecords waits until the driver has a record for each live volume, and no other.
func (s *site) wantRecords(t testing.TB) {
	t.Helper()
	expect.Eventually(t, goneTimeout, func() error {
		want, err := s.liveVolumes(t.Context())
		if err != nil {
			return err
		}
		records, err := filepath.Glob(filepath.Join(s.Root(), "run/csi.liveconfig.internal/volumes/*"))
		if err != nil {
			return err
		}
		if len(records) != want {
			return fmt.Errorf("the driver has %d records, want %d: %q", len(records), want, records)
		}
		return nil
	})
}

// liveVolumes counts the driver's volumes of all pods that are not over.
func (s *site) liveVolumes(ctx context.Context) (int, error) {
	pods, err := s.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pod := range pods.Items {
		for _, v := range pod.Spec.Volumes {
			if v.CSI != nil && pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
	}
	return n, nil
}

// killDriver ends the driver's process by SIGKILL.
func (s *site) killDriver(t testing.TB) {
	t.Helper()
	s.killInPods(t, "liveconfig-driver")
}

// killInPods ends the one process in the node's pods that runs a program.
func (s *site) killInPods(t testing.TB, program string) {
	t.Helper()
	pids, err := s.Processes(program)
	expect.NoError(t, err)
	if len(pids) != 1 {
		t.Fatalf("%s runs %d times on the node, want once", program, len(pids))
	}
	process, err := os.FindProcess(pids[0])
	expect.NoError(t, err)
	expect.NoError(t, process.Kill())
}

// wantOnTheNode reads a pod's file as the node sees it.
func (st *steady) wantOnTheNode(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(st.VolumeDir(pod, "config"), "version"))
	if err != nil || string(got) != strconv.Itoa(st.version) {
		t.Fatalf("the file of pod %s has %q, %v, want %d", pod.Name, got, err, st.version)
	}
}
