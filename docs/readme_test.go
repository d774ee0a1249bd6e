package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestFirstScreen: the README begins with a sentence, a picture, a pod of eight lines that the driver accepts, and the two
// commands.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	screen := string(read(t, "README.md"))
	screen, _, _ = strings.Cut(screen, "\n## ")
	if lines := strings.Count(screen, "\n"); lines > 30 || !strings.Contains(screen, "](docs/pictures/") {
		t.Errorf("the first screen has %d lines, want 30 at most with a picture", lines)
	}
	for _, command := range []string{"\nmake demo ", "\nmake test "} {
		if !strings.Contains(screen, command) {
			t.Errorf("the first screen does not have the command %q", strings.TrimSpace(command))
		}
	}
	_, manifest, _ := strings.Cut(screen, "```yaml\n")
	manifest, _, _ = strings.Cut(manifest, "```")
	var pod struct {
		Kind string
		Spec struct {
			Containers []struct{ VolumeMounts []struct{ Name string } }
			Volumes    []struct {
				Name string
				CSI  struct {
					Driver           string
					ReadOnly         bool
					VolumeAttributes map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Kind != "Pod" || strings.Count(manifest, "\n") != 8 || len(pod.Spec.Volumes) != 1 || len(pod.Spec.Containers) != 1 {
		t.Fatalf("the first manifest is no pod with one container and one volume in eight lines:\n%s", manifest)
	}
	volume := pod.Spec.Volumes[0]
	if mounts := pod.Spec.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].Name != volume.Name {
		t.Errorf("the container mounts %v, want the volume %s", mounts, volume.Name)
	}
	if _, err := api.Parse(volume.CSI.VolumeAttributes, "default"); err != nil || volume.CSI.Driver != api.DriverName || !volume.CSI.ReadOnly {
		t.Errorf("the driver does not accept the volume %+v: %v", volume, err)
	}
}

// TestPublicationIsDescribedOnce: what is published changes in one place, with what to type today.
func TestPublicationIsDescribedOnce(t *testing.T) {
	t.Parallel()
	unpublished := regexp.MustCompile(`(?i)\bno (image|version|release|chart)s? (is|are) published|\bno (images|versions|releases) yet`)
	var found []string
	for _, page := range pages(t) {
		text := strings.Join(strings.Fields(string(read(t, page))), " ")
		for range unpublished.FindAllString(text, -1) {
			found = append(found, page)
		}
	}
	if len(found) != 1 || found[0] != "README.md" {
		t.Errorf("the state of publication stands in %v, want README.md, once", found)
	}
}
