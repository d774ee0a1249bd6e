package environment

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/memcg"
)

// Contained returns a command that starts a program in a control group with a limit of memory; nil for an ordinary user, who may
// make no group. The test fails if the kernel kills a process of the group. The program must end before the test's earlier
// calls of Cleanup run.
func Contained(t testing.TB, limit int64) (launcher []string) {
	t.Helper()
	group, err := memcg.New("liveconfig-"+rand.Text(), limit)
	switch {
	case errors.Is(err, memcg.ErrForbidden):
		t.Logf("the program runs without a limit of memory: %v", err)
		return nil
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if kills, err := group.Kills(); kills != 0 || err != nil {
			t.Errorf("the kernel has killed %d processes of the container (%v), want none", kills, err)
		}
		if err := group.Remove(); err != nil {
			t.Errorf("remove the control group: %v", err)
		}
	})
	return group.Launcher()
}

// The containers of [ChartMemory].
const (
	DriverContainer     = ""
	ControllerContainer = "controller"
)

// ChartMemory returns the limit of memory that the values of deploy/chart give a container.
func ChartMemory(t testing.TB, container string) int64 {
	t.Helper()
	repo, err := Repo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repo, "deploy", "chart", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type limits struct {
		Resources struct {
			Limits struct{ Memory string }
		}
	}
	var values struct {
		limits
		Controller limits
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	of := map[string]limits{DriverContainer: values.limits, ControllerContainer: values.Controller}[container]
	memory, err := resource.ParseQuantity(of.Resources.Limits.Memory)
	if err != nil {
		t.Fatalf("the chart's limit of memory %q of the container %q: %v", of.Resources.Limits.Memory, container, err)
	}
	return memory.Value()
}
