package e2e_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// core is what a scenario has: the node and the namespace, which it shares with the others, and its test.
type core struct {
	*site

	ns string
	t  *testing.T
}

// coreCase is something that pods do with volumes every day. TestVolumeSuite has more, with one runtime.
type coreCase struct {
	// begin makes what the scenario needs, waits for nothing, and returns what is to be seen then. So the pods of all
	// scenarios start at once.
	begin func(core) func()
	// onDebian is what is seen in its place with the older runtime, where that cannot do it.
	onDebian func(core) func()
}

func TestCoreOnDebian(t *testing.T) { testCore(t, realnode.Debian()) }

func TestCoreOnContainerd2(t *testing.T) { testCore(t, realnode.Containerd2()) }

func testCore(t *testing.T, runtime realnode.Runtime) {
	t.Helper()
	s := on(t, runtime)
	ns := s.namespace(t)
	for name, scenario := range coreCases() {
		t.Run(name, func(t *testing.T) {
			begin := scenario.begin
			if runtime.Name == realnode.Debian().Name && scenario.onDebian != nil {
				begin = scenario.onDebian
			}
			check := begin(core{site: s, ns: ns, t: t})
			t.Parallel() // From here on; what is above has happened in all scenarios before anything is checked.
			check()
		})
	}
}

func coreCases() map[string]coreCase {
	return map[string]coreCase{
		"with a uid modes stay, and only the owner reads":                    {begin: core.ownedFiles},
		"a pod with a user namespace sees updates and cannot write":          {begin: core.userNamespace, onDebian: core.noUserNamespace},
		"without readOnly the pod does not start and hears what to add":      {begin: core.readOnlyMissing},
		"nobody writes from a container, not even root":                      {begin: core.noWrites},
		"a subPath mount changes with InPlace alone":                         {begin: core.subPaths},
		"init containers and containers see the same files":                  {begin: core.initContainer},
		"two containers of a pod share one volume and both see an update":    {begin: core.twoContainers},
		"a volume goes when its Job is done":                                 {begin: core.job},
		"a StatefulSet's pod has a new volume under its old name":            {begin: core.statefulSet},
		"a Secret is denied until what the Event says is applied, and lives": {begin: core.deniedSecret},
		"a container that is restarted finds the volume as it is":            {begin: core.restart},
		"an update shows as an Event on the pod":                             {begin: core.events},
	}
}

// asUser1000 lets all containers of a pod run as a user, and a group of the same number, that are not root.
func asUser1000(pod *corev1.Pod) *corev1.Pod {
	id := new(int64(1000))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: id, RunAsGroup: id}
	return pod
}
