package release

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// apiServer is what is wrong while the API server is away.
const apiServer = "API server"

// event is one thing that can happen.
type event struct {
	name   string
	weight int
	do     func(*survival, *rand.Rand)
	// isBreak: afterwards no step ends for twelve seconds. It happens at some times, and not at others.
	isBreak bool
}

// events are all of them. Those of one seed come in one order, whatever they find.
func events() []event {
	return []event{
		{"good edit", 14, func(s *survival, r *rand.Rand) { s.editSome(r, false) }, false},
		{"bad edit", 7, func(s *survival, r *rand.Rand) { s.editSome(r, true) }, false},
		{"wait", 12, func(s *survival, r *rand.Rand) { waitFor(s.T.Context(), time.Duration(r.IntN(4000))*time.Millisecond) }, false},
		{"kill driver", 4, (*survival).killDriver, false},
		{"freeze driver", 4, (*survival).freezeDriver, false},
		{"cut driver off", 3, func(s *survival, r *rand.Rand) { s.cut(s.machines[r.IntN(len(s.machines))].link, r) }, false},
		{"partition driver", 3, func(s *survival, r *rand.Rand) { s.partition(s.machines[r.IntN(len(s.machines))].link, r) }, false},
		{"cut controllers off", 2, func(s *survival, r *rand.Rand) { s.cut(s.link, r) }, true},
		{"partition controllers", 2, func(s *survival, r *rand.Rand) { s.partition(s.link, r) }, true},
		{"cut all connections", 2, (*survival).cutAll, true},
		{"stop API server", 3, (*survival).stopAPIServer, true},
		{"kill controller", 5, (*survival).killController, false},
		{"freeze controller", 2, (*survival).freezeController, false},
		{"edit while drivers are away", 8, (*survival).editAway, false},
		{"take Role", 2, (*survival).takeRole, false},
		{"evict pod", 3, (*survival).evictPod, false},
		{"delete pod", 3, (*survival).deletePod, false},
		{"scale", 3, (*survival).scale, false},
		{"pod is sick", 2, (*survival).makeSick, false},
		{"container crashes", 1, (*survival).crash, false},
		{"change settings", 4, (*survival).changeSettings, false},
		{"break annotation", 1, (*survival).breakAnnotation, false},
		{"delete copy", 3, (*survival).deleteCopy, false},
		{"person", 3, (*survival).person, false},
	}
}

// step has one thing happen, and ends others whose time is over.
func (s *survival) step() {
	s.restartEnded()
	for i := 0; i < len(s.heals); {
		h := s.heals[i]
		if time.Now().Before(h.due) {
			i++
			continue
		}
		s.heals = append(s.heals[:i], s.heals[i+1:]...)
		s.did = append(s.did, "("+h.what+" is back)")
		h.do()
	}
	all := events()
	if s.phase--; s.phase < 0 {
		s.phase, s.isSteady = 10+s.random.IntN(25), s.random.IntN(4) > 0
	}
	if s.isSteady {
		all = slices.DeleteFunc(all, func(e event) bool { return e.isBreak })
	}
	sum := 0
	for _, e := range all {
		sum += e.weight
	}
	n, own := s.random.IntN(sum), rand.New(rand.NewPCG(s.random.Uint64(), 0))
	for _, e := range all {
		if n -= e.weight; n < 0 {
			s.did = append(s.did, e.name)
			s.counts[e.name]++
			e.do(s, own)
			break
		}
	}
	waitFor(s.T.Context(), time.Duration(own.IntN(1200))*time.Millisecond)
}

// healIn has something end later.
func (s *survival) healIn(d time.Duration, what string, do func()) {
	s.heals = append(s.heals, heal{time.Now().Add(d), what, do})
}

// away is how long something is away.
func away(r *rand.Rand) time.Duration {
	most := soak.Rounds(4000, 20_000)
	if r.IntN(8) == 0 {
		most *= 3
	}
	return time.Duration(300+r.IntN(most)) * time.Millisecond
}

// try does something that needs the API server, which may be away.
func (s *survival) try(do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(s.T.Context(), 3*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		s.did = append(s.did, "(in vain)")
	}
}

// surely is try until it is done. The API server comes back for it.
func (s *survival) surely(do func(context.Context) error) {
	if s.isAway {
		s.healAPIServer()
	}
	attempt(s.T.Context(), do)
}

func (s *survival) someLoad(r *rand.Rand) *workload { return s.loads[r.IntN(len(s.loads))] }

func (s *survival) someCopy(r *rand.Rand) (*workload, *copyHistory) {
	l := s.someLoad(r)
	return l, l.copies[r.IntN(len(l.copies))]
}

// editSome edits one object, or all of a group.
func (s *survival) editSome(r *rand.Rand, bad bool) {
	l := s.someLoad(r)
	one := r.IntN(2 * len(l.copies))
	for i, c := range l.copies {
		if one == i || one >= len(l.copies) {
			s.makeEdit(l, c, bad)
		}
	}
}

// makeEdit writes the next edit that is good, or bad.
func (s *survival) makeEdit(l *workload, c *copyHistory, bad bool) {
	c.mu.Lock()
	for c.newest++; isBad(c.newest) != bad; c.newest++ {
	}
	s.did = append(s.did, fmt.Sprint(c.name, " ", c.newest))
	c.mu.Unlock()
	write := func(ctx context.Context) error { return s.put(ctx, l, c) }
	if s.isAway {
		s.try(write)
		return
	}
	attempt(s.T.Context(), write)
}

// takeRole takes the right to read Secrets from the pods.
func (s *survival) takeRole(r *rand.Rand) {
	bindings := s.Cluster.Client().RbacV1().RoleBindings(s.Namespace)
	s.try(func(ctx context.Context) error {
		b, err := bindings.Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		b.ResourceVersion, b.UID = "", ""
		s.healIn(away(r), "Role", func() {
			s.surely(func(ctx context.Context) error {
				if _, err := bindings.Get(ctx, b.Name, metav1.GetOptions{}); err == nil {
					return nil
				}
				_, err := bindings.Create(ctx, b, metav1.CreateOptions{})
				return err
			})
		})
		return bindings.Delete(ctx, b.Name, metav1.DeleteOptions{})
	})
}

// changeSettings changes how objects are released, and whether they are together.
func (s *survival) changeSettings(r *rand.Rand) {
	l := s.someLoad(r)
	a := &l.settings
	a.steps = []string{"[1]", "[1, 50%]", "[2, 50%, 100%]", "[50%]", "[]"}[r.IntN(5)]
	a.pause = time.Duration(800+r.IntN(2500)) * time.Millisecond
	a.watch = time.Duration(r.IntN(2)*r.IntN(3000)) * time.Millisecond
	a.onFailure = []string{"revert", "freeze"}[r.IntN(2)]
	a.isUnproven = r.IntN(8) == 0
	if len(l.copies) > 1 {
		a.group = []string{"app", "app", "app", ""}[r.IntN(4)]
	}
	s.annotate(l)
}

// breakAnnotation makes a mistake in the annotations, and corrects it.
func (s *survival) breakAnnotation(r *rand.Rand) {
	l := s.someLoad(r)
	l.settings.isBroken = true
	s.annotate(l)
	s.healIn(away(r)/2, "annotation", func() {
		l.settings.isBroken = false
		s.annotate(l)
	})
}

// annotate writes the settings of now.
func (s *survival) annotate(l *workload) {
	s.did = append(s.did, l.name+" "+l.settings.String())
	for _, c := range l.copies {
		l.evidence[c].rule(l.settings.needed())
		s.surely(func(ctx context.Context) error { return s.put(ctx, l, c) })
	}
}

// deleteCopy deletes a stable copy, or what it had before.
func (s *survival) deleteCopy(r *rand.Rand) {
	l, c := s.someCopy(r)
	kept := c.name + release.FormerSuffix
	suffix := release.Suffix
	if r.IntN(3) == 0 {
		suffix = release.FormerSuffix
	}
	s.try(func(ctx context.Context) error {
		if err := s.find(ctx, c, kept); err != nil {
			return err // Without both nobody knows what was stable.
		}
		if err := s.find(ctx, c, c.name+release.Suffix); err != nil {
			return err
		}
		l.mu.Lock()
		l.lostUntil = time.Now().Add(missingTime)
		l.mu.Unlock()
		return s.delete(ctx, c, c.name+suffix)
	})
}

// find returns an error for an object that is not there.
func (s *survival) find(ctx context.Context, c *copyHistory, name string) error {
	var err error
	if c.isSecret {
		_, err = s.Cluster.Client().CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	} else {
		_, err = s.ConfigMaps().Get(ctx, name, metav1.GetOptions{})
	}
	return err
}

func (s *survival) delete(ctx context.Context, c *copyHistory, name string) error {
	if c.isSecret {
		return s.Cluster.Client().CoreV1().Secrets(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return s.ConfigMaps().Delete(ctx, name, metav1.DeleteOptions{})
}

// person runs a command of the plugin beside everything else.
func (s *survival) person(r *rand.Rand) {
	_, c := s.someCopy(r)
	what := []string{"promote", "freeze", "revert", "undo"}[r.IntN(4)]
	s.did = append(s.did, what+" "+c.name)
	s.persons.Go(func() {
		ctx, cancel := context.WithTimeout(s.T.Context(), 20*time.Second)
		defer cancel()
		s.steer(ctx, what, c)
	})
}

// steer runs a command of the plugin about a release. What it refuses is right as well.
func (s *survival) steer(ctx context.Context, what string, c *copyHistory) {
	kind := api.ConfigMap
	if c.isSecret {
		kind = api.Secret
	}
	_ = exec.CommandContext(ctx, s.plugin, "--kubeconfig="+s.admin, "-n", s.Namespace, "release", what, kind.Resource()+"/"+c.name).Run()
}
