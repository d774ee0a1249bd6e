package rollout

import (
	"fmt"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// TestCopiesHaveTheLabelsThatTheSourceLists: a copy has them from its first moment, old copies follow when the source's are
// changed, and a list that cannot be is held back and not made half of.
//
// Fault 35.
func TestCopiesHaveTheLabelsThatTheSourceLists(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.kubectl("label", "configmap/foo", "class=restricted", "other=x")
	s.kubectl("annotate", "configmap/foo", copies.CopiedLabels+"=class,later")
	s.apply(deployment("web"))
	one := s.rolledOut("web", foo("one"))["configmap/foo"]
	s.carries(one, map[string]string{"class": "restricted"})
	s.edit("foo", "two")
	two := s.rolledOut("web", foo("two"))["configmap/foo"]
	before := s.past("deployment/web")

	s.kubectl("label", "--overwrite", "configmap/foo", "class=secret", "later=y")
	for _, name := range []string{one, two} {
		s.carries(name, map[string]string{"class": "secret", "later": "y"})
	}
	s.kubectl("annotate", "--overwrite", "configmap/foo", copies.CopiedLabels+"=later")
	for _, name := range []string{one, two} {
		s.carries(name, map[string]string{"later": "y"})
	}

	s.kubectl("annotate", "--overwrite", "configmap/foo", copies.CopiedLabels+"=later,"+copies.Label)
	s.edit("foo", "three")
	s.event("Deployment/web", rollout.ReasonHeldBack, copies.Label+" cannot be copied, take it off the list")
	s.wantRevisions("deployment/web", before, 0)
	s.kubectl("annotate", "configmap/foo", copies.CopiedLabels+"-")
	three := s.rolledOut("web", foo("three"))["configmap/foo"]
	for _, name := range []string{one, two, three} {
		s.carries(name, nil)
	}
}

// carries waits until a copy has these labels of its source, and no others.
func (s *site) carries(name string, want map[string]string) {
	s.t.Helper()
	s.eventually(func() error {
		labels := s.configMapNow(name).Labels
		for _, key := range []string{"class", "other", "later"} {
			if labels[key] != want[key] {
				return fmt.Errorf("%s has the labels %v, want %v of its source", name, labels, want)
			}
		}
		return nil
	})
}
