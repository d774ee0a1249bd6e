package release

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

func (s *survival) killDriver(r *rand.Rand) {
	m := s.machines[r.IntN(len(s.machines))]
	if m.state != "" {
		return
	}
	m.state = "dead"
	expect.NoError(s.T, m.Kill())
	s.healIn(away(r)/2, "driver", func() {
		m.state = ""
		expect.NoError(s.T, m.StartDriver(s.T.Context()))
	})
}

func (s *survival) freezeDriver(r *rand.Rand) {
	s.freeze(s.machines[r.IntN(len(s.machines))], away(r))
}

func (s *survival) freeze(m *machine, d time.Duration) {
	if m.state != "" {
		return
	}
	m.state = "frozen"
	expect.NoError(s.T, syscall.Kill(m.PID(), syscall.SIGSTOP))
	s.healIn(d, "driver", func() {
		m.state = ""
		expect.NoError(s.T, syscall.Kill(m.PID(), syscall.SIGCONT))
	})
}

// editAway has an edit come while no driver hears of it.
func (s *survival) editAway(r *rand.Rand) {
	how := r.IntN(3)
	for _, m := range s.machines {
		switch how {
		case 0:
			s.freeze(m, away(r))
		case 1:
			s.cut(m.link, r)
		default:
			s.partition(m.link, r)
		}
	}
	s.editSome(r, r.IntN(2) == 0)
}

// cut ends what goes over a link at once, and partition does so silently.
func (s *survival) cut(link *network.Link, r *rand.Rand) {
	expect.NoError(s.T, link.Cut())
	s.healIn(away(r), "link", func() { expect.NoError(s.T, link.Heal()) })
}

func (s *survival) partition(link *network.Link, r *rand.Rand) {
	link.Freeze()
	s.healIn(away(r), "link", func() { expect.NoError(s.T, link.Heal()) })
}

func (s *survival) cutAll(*rand.Rand) {
	for _, m := range s.machines {
		expect.NoError(s.T, m.link.Cut())
		expect.NoError(s.T, m.link.Heal())
	}
	expect.NoError(s.T, s.link.Cut())
	expect.NoError(s.T, s.link.Heal())
}

func (s *survival) stopAPIServer(r *rand.Rand) {
	if s.isAway {
		return
	}
	s.isAway = true
	pid, _ := s.Cluster.Processes()
	expect.NoError(s.T, syscall.Kill(pid, syscall.SIGSTOP))
	d := away(r)
	s.healIn(d, apiServer, s.healAPIServer)
}

func (s *survival) healAPIServer() {
	s.isAway = false
	pid, _ := s.Cluster.Processes()
	expect.NoError(s.T, syscall.Kill(pid, syscall.SIGCONT))
}

// addControllers makes what the controllers need. In a long run there are two, of which one waits for the other's lease.
func (s *survival) addControllers(t *testing.T) {
	t.Helper()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	installing.Lock()
	defer installing.Unlock()
	_, err = s.Cluster.Apply(t.Context(), filepath.Join(repo, "deploy", "controller"))
	expect.NoError(t, err)
	direct := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, s.Cluster.WriteServiceAccountKubeconfig(t.Context(), direct, driverNamespace, "liveconfig-controller"))
	s.link = network.New(t, s.Cluster.AdminConfig().Host)
	s.kubeconfig = direct + "-of-link"
	expect.NoError(t, s.link.Kubeconfig(direct, s.kubeconfig))
	s.binary, s.log = environment.Controller(t), filepath.Join(t.TempDir(), "controller.log")
	s.running = make([]*process.Process, soak.Rounds(1, 2))
}

func (s *survival) startControllers() {
	for i := range s.running {
		s.startController(i)
	}
}

func (s *survival) startController(i int) {
	p, err := process.Start(context.WithoutCancel(s.T.Context()), process.Config{Path: s.binary, LogFile: s.log, Args: []string{
		"--kubeconfig=" + s.kubeconfig, "--namespaces=" + s.Namespace, "--quiet-period=300ms", "-v=3",
		"--evidence", "--driver-namespace=" + driverNamespace,
		fmt.Sprint("--leader-elect=", len(s.running) > 1), "--lease-namespace=" + driverNamespace,
	}})
	expect.NoError(s.T, err)
	s.running[i] = p
}

// restartEnded starts controllers that have ended by themselves, as kubelets do: they do so when they lose the lease.
func (s *survival) restartEnded() {
	for i, p := range s.running {
		if p != nil && p.Err() != nil {
			if len(s.running) == 1 {
				s.T.Errorf("the only controller has ended: %v", p.Err())
			}
			s.did = append(s.did, "(controller ended)")
			s.startController(i)
		}
	}
}

func (s *survival) killController(r *rand.Rand) {
	i := r.IntN(len(s.running))
	if s.running[i] == nil {
		return
	}
	expect.NoError(s.T, s.running[i].Kill())
	s.running[i] = nil
	s.healIn(away(r)/4, "controller", func() { s.startController(i) })
}

func (s *survival) freezeController(r *rand.Rand) {
	p := s.running[r.IntN(len(s.running))]
	if p == nil {
		return
	}
	expect.NoError(s.T, syscall.Kill(p.PID(), syscall.SIGSTOP))
	s.healIn(away(r)/2, "frozen controller", func() {
		if p.Err() == nil {
			expect.NoError(s.T, syscall.Kill(p.PID(), syscall.SIGCONT))
		}
	})
}
