package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestAPersonSteersAGroup at any time of its release: all objects go together, although the plugin
// is killed between any two writes, and then the controller goes on.
func TestAPersonSteersAGroup(t *testing.T) {
	t.Parallel()
	const tls = "secret/tls"
	moments := map[string]func(w *world){
		"waiting":            func(*world) {},
		"half exposed":       func(w *world) { w.pass(3 * time.Second); w.act(web, w.decide()) },
		"in the first step":  func(w *world) { w.pass(3 * time.Second).do() },
		"in the second step": func(w *world) { w.pass(3 * time.Second).do(); w.pass(10 * time.Second).do() },
		"refused":            func(w *world) { w.pass(3 * time.Second); w.refuses = true; w.do(); w.refuses = false },
		"reverted":           func(w *world) { w.pass(3 * time.Second).failOne() },
		"frozen by a person": func(w *world) { w.pass(3 * time.Second).do(); w.steer(-1, "freeze") },
		"shown to all of it": func(w *world) {
			w.pass(3 * time.Second).do()
			w.pass(10 * time.Second).do()
			w.pass(10 * time.Second).do()
		},
		"promoted to a third": func(w *world) { w.pass(3 * time.Second).do(); w.steer(3, "promote") },
	}
	for moment, begin := range moments {
		for _, command := range []string{"promote", "revert", "freeze"} {
			for killed := range 6 {
				t.Run(fmt.Sprint(command, " ", moment, ", killed after ", killed), func(t *testing.T) {
					t.Parallel()
					w := newEdited(t, 8, "{group: g, steps: [1, 50%], pause: 10s}", web, tls)
					begin(w)
					w.seen = map[string]*plan.Seen{}
					wasPromoted := w.unit.Objects[0].Stable == "2"
					shown := len(plan.Exposed(w.unit))
					finished := w.pass(time.Second).steer(killed, command)
					if killed == 0 {
						return // It did nothing.
					}
					switch w.controller(); {
					case command == "promote" || wasPromoted:
						w.wantStable("2")
					case command == "revert":
						w.wantShown(0, release.Reverted)
					case finished:
						w.wantShown(shown, release.Frozen)
					}
				})
			}
		}
	}
}

// steer does what a command of the plugin does, until it has written so many times, and reports
// whether it has finished.
func (w *world) steer(writes int, command string) (finished bool) {
	w.Helper()
	for range 20 {
		var d plan.Decision
		switch command {
		case "promote":
			d = plan.Promotion(w.unit, "promoted by me")
		case "revert":
			d = plan.End(w.unit, release.Reverted, "reverted by me")
		default:
			d = plan.End(w.unit, release.Frozen, "frozen by me")
		}
		if d.Action == plan.Promote && command != "promote" || d.Action == plan.Rest && d.After == 0 {
			return true
		}
		if d.Action == plan.Rest {
			w.pass(d.After)
			continue
		}
		for _, name := range d.Names {
			if writes == 0 {
				return false
			}
			writes--
			w.act(name, d)
			w.wantTogether()
		}
	}
	w.Fatal("the command comes to no end")
	return false
}

// controller does what the controller does within a minute.
func (w *world) controller() {
	w.Helper()
	for range 40 {
		d := w.decide()
		if d.Action == plan.Rest {
			w.pass(max(d.After, time.Second))
			continue
		}
		for _, name := range d.Names {
			w.act(name, d)
			w.wantTogether()
		}
	}
}
