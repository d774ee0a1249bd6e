package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// onlyPod waits for the one pod with a label and returns it.
func (c core) onlyPod(t *testing.T, app string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	expect.Eventually(t, startTimeout, func() error {
		pods, err := c.Client().CoreV1().Pods(c.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods of %s, want 1", len(pods.Items), app)
		}
		pod = &pods.Items[0]
		return nil
	})
	return pod
}

// template is a pod of [boxPod] for those who make pods.
func template(app, configMap string) corev1.PodTemplateSpec {
	pod := boxPod("", "", map[string]string{"configMap": configMap})
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: pod.Spec}
}

// wantVolumeGone waits until nothing of a pod is mounted and the driver has no record of it.
func (c core) wantVolumeGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	expect.Eventually(t, goneTimeout, func() error {
		mounts, err := c.Mounts(string(pod.UID))
		if err == nil && len(mounts) > 0 {
			err = fmt.Errorf("mounts of pod %s are left:\n%s", pod.Name, strings.Join(mounts, "\n"))
		}
		return errors.Join(err, c.noRecordOf(pod))
	})
}

// noRecordOf returns which of the driver's files names a pod.
func (c core) noRecordOf(pod *corev1.Pod) error {
	dir := filepath.Join(c.Root(), "run/csi.liveconfig.internal")
	records := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		records++
		return ignoreGone(notIn(path, string(pod.UID)))
	})
	if err == nil && records == 0 {
		err = fmt.Errorf("the driver has no records in %s at all", dir)
	}
	return err
}

func (c core) job() func() {
	t := c.t
	c.file(t, "job", "one")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template("job", "job")}}
	spec := &job.Spec.Template.Spec
	spec.RestartPolicy, spec.Containers[0].Command = corev1.RestartPolicyNever, []string{"cat", corePath}
	jobs := c.Client().BatchV1().Jobs(c.ns)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		pod := c.onlyPod(t, "job")
		expect.Eventually(t, startTimeout, func() error {
			got, err := jobs.Get(t.Context(), "job", metav1.GetOptions{})
			if err == nil && got.Status.Succeeded != 1 {
				err = fmt.Errorf("the Job is not done: %+v", got.Status)
			}
			return err
		})
		c.wantLog(t, pod, "one")
		// The pod is still there, for anyone who wants its log.
		c.wantVolumeGone(t, pod)
		if got := c.onlyPod(t, "job"); got.UID != pod.UID || got.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the Job's pod is now %s and %s, want %s and Succeeded", got.UID, got.Status.Phase, pod.UID)
		}
		now := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		expect.NoError(t, jobs.Delete(t.Context(), "job", now))
		c.wantNothingOf(t, pod)
	}
}

func (c core) statefulSet() func() {
	t := c.t
	c.file(t, "set", "one")
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "set"}}, Template: template("set", "set"),
	}}
	if _, err := c.Client().AppsV1().StatefulSets(c.ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		old := c.awaitReady(t, c.onlyPod(t, "set"))
		c.wantFile(t, old, "", corePath, "one")
		if c.noRecordOf(old) == nil {
			t.Errorf("the driver has no record that names pod %s, which runs", old.UID)
		}
		c.delete(t, old)
		c.file(t, "set", "two")
		pod := c.awaitReady(t, c.onlyPod(t, "set"))
		if pod.Name != old.Name || pod.UID == old.UID {
			t.Fatalf("pod %s (%s) came after %s (%s), want another one of the same name", pod.Name, pod.UID, old.Name, old.UID)
		}
		c.wantFile(t, pod, "", corePath, "two")
		c.wantNothingOf(t, old)
		c.wantVolumeGone(t, old)
		c.wantOneMount(t, pod)
		c.file(t, "set", "three")
		c.wantFile(t, pod, "", corePath, "three")
	}
}

func (c core) restart() func() {
	t := c.t
	c.file(t, "restart", "one")
	pod := boxPod(c.ns, "restart", map[string]string{"configMap": "restart"})
	pod.Spec.Containers = append(pod.Spec.Containers, box("second"))
	pod = c.create(t, pod)
	return func() {
		pod := c.awaitReady(t, pod)
		before, err := c.Exec(t.Context(), pod, "main", "stat", "-L", "-c", "%d", mountPath)
		expect.NoError(t, err)
		// The shell ends with its parent, so the command may fail.
		_, _ = c.Exec(t.Context(), pod, "main", "kill", "1")
		pod = c.awaitRestart(t, pod, 0)
		c.wantFile(t, pod, "main", corePath, "one")
		c.file(t, "restart", "two")
		for _, container := range []string{"main", "second"} {
			c.wantFile(t, pod, container, corePath, "two")
		}
		c.wantOutput(t, pod, "main", before, "stat", "-L", "-c", "%d", mountPath) // The file system that it had.
		c.wantOneMount(t, pod)
	}
}

func (c core) events() func() {
	t := c.t
	c.file(t, "events", "one")
	pod := c.create(t, boxPod(c.ns, "events", map[string]string{"configMap": "events"}))
	return func() {
		pod := c.awaitReady(t, pod)
		c.file(t, "events", "two")
		c.wantFile(t, pod, "", corePath, "two")
		c.wantEvent(t, pod, "Projected", "a change of the sources is in the files")
		expect.NoError(t, c.Client().CoreV1().ConfigMaps(c.ns).Delete(t.Context(), "events", metav1.DeleteOptions{}))
		c.wantEvent(t, pod, "SourceMissing", `configmap "events" not found`)
		c.wantFile(t, pod, "", corePath, "two")
		c.file(t, "events", "three")
		c.wantFile(t, pod, "", corePath, "three")
		c.wantEvent(t, pod, "Projected", "the files are current again")
	}
}
