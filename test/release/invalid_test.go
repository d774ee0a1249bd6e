package release

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/memcg"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// controllerMemory is what the controller has, with the processes that it starts.
const controllerMemory = 128 << 20

// TestInvalidEdits: none of many edits that break a rule reaches a pod, and the controller takes no more memory than its
// container has.
func TestInvalidEdits(t *testing.T) {
	s := newIdleSite(t, environment.ControllerAsShipped(t))
	group, err := memcg.New("liveconfig-"+s.Namespace, controllerMemory)
	switch {
	case errors.Is(err, memcg.ErrForbidden):
		t.Logf("the controller runs in no small container: %v", err)
	case err != nil:
		t.Fatal(err)
	default:
		launcher := append(group.Launcher(), s.binary)
		s.binary, s.before = launcher[0], launcher[1:]
		defer func() {
			s.stop()
			if kills, err := group.Kills(); err != nil || kills > 0 {
				t.Errorf("the kernel has killed %d processes of the controller's container, %v", kills, err)
			}
			must(t, group.Remove())
		}()
	}
	s.start()
	const annotation = `
steps: [100%]
validate:
  - {key: app.json, schemaFrom: {key: schema.json}}
  - {key: app.yaml, cel: "self.max <= 10"}
  - {key: app.toml}
  - {key: app.ini}
  - {key: app.properties}
`
	valid := map[string]string{
		"schema.json": `{"properties": {"max": {"type": "integer", "maximum": 10}}, "additionalProperties": false}`,
		"app.json":    `{"max": 1}`, "app.yaml": "max: 1", "app.toml": "max = 1", "app.ini": "max = 1", "app.properties": "max = 1",
		"a": environment.Marked("1"),
	}
	m, err := s.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: annotation}}, Data: valid,
	}, metav1.CreateOptions{})
	must(t, err)
	s.wantState("", 0)
	s.replicas(2, web)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	spoil := map[string]func() string{
		"app.json":       func() string { return fmt.Sprintf(`{"max": %d}`, 11+random.IntN(1<<30)) },
		"schema.json":    func() string { return fmt.Sprintf(`{"properties": {"max": {"maximum": -%d}}}`, 1+random.IntN(1<<30)) },
		"app.yaml":       func() string { return fmt.Sprintf("max: %d", 11+random.IntN(1<<30)) },
		"app.toml":       func() string { return fmt.Sprintf("max = \n%d", random.IntN(1<<30)) },
		"app.ini":        func() string { return fmt.Sprintf("[max%d", random.IntN(1<<30)) },
		"app.properties": func() string { return fmt.Sprintf(`max = \uz%d`, random.IntN(1<<30)) },
	}
	edits := soak.Rounds(200, 10_000)
	for i := range edits {
		m.Data = maps.Clone(valid)
		m.Data["a"] = environment.Marked("2")
		for key, value := range spoil { // Whichever comes first.
			m.Data[key] = value()
			break
		}
		m, err = s.ConfigMaps().Update(t.Context(), m, metav1.UpdateOptions{})
		must(t, err)
		if i%10 != 0 {
			continue // The next edit comes before anybody has looked at this one, or while they do.
		}
		s.wantState(release.Refused, 0)
		for _, pod := range s.pods {
			if err := s.Holds(pod, "a", "1"); err != nil {
				t.Fatalf("seed %d, after %d edits: %v", seed, i+1, err)
			}
		}
	}
	s.wantEvent("web", releases.ReasonRefused, "No pod gets the edit: configmap/web: validate[")
	m.Data = valid
	m.Data["a"] = environment.Marked("3")
	_, err = s.ConfigMaps().Update(t.Context(), m, metav1.UpdateOptions{})
	must(t, err)
	s.wantState(release.Progressing, 1)
	s.wantValues("a", map[string]int{"3": 2})
}
