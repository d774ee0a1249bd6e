package template_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestProblemsAreFew: a template may have thousands of volumes, and what is wrong with them goes into the log.
func TestProblemsAreFew(t *testing.T) {
	t.Parallel()
	of := &corev1.PodTemplateSpec{}
	for i := range 5000 {
		of.Spec.Volumes = append(of.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i), VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: ours.Driver, VolumeAttributes: map[string]string{"configmap": "a"}},
		}})
	}
	_, err := uses(t, of)
	if err == nil {
		t.Fatal("Uses found nothing wrong, want mistakes")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 21 || last != "and 4980 more" {
		t.Errorf("the error has %d lines, of which the last is %q, want 21 and the number of the others", len(lines), last)
	}
}
