package release

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

const (
	// mostNodes is how many drivers are asked about one object, as by the controller.
	mostNodes = 20
	// askTime is how long the drivers of one object are asked.
	askTime = 5 * time.Second
	// freshTime is how long an answer is used again.
	freshTime = 2 * time.Second
	// mostHolders is how many pods are named that hold a step up.
	mostHolders = 20
)

// reporter reports what the files of pods have.
type reporter interface {
	ReportsOf(ctx context.Context, nodes []string, namespace string) map[string]nodes.Answer
}

// holder is a pod that keeps a step from its end.
type holder struct {
	Pod    string `json:"pod"`
	Node   string `json:"node,omitempty"`
	Reason string `json:"reason"`
}

// answer is one of a driver about a namespace.
type answer struct {
	nodes.Answer

	at time.Time
}

// drivers remembers answers for a short time.
type drivers struct {
	reporter reporter
	known    map[string]answer // By namespace and node.
}

// ask returns the answers of the drivers of nodes.
func (d *drivers) ask(ctx context.Context, namespace string, of []string) map[string]nodes.Answer {
	answers := map[string]nodes.Answer{}
	var unknown []string
	for _, node := range of {
		if known, found := d.known[namespace+"/"+node]; found && time.Since(known.at) < freshTime {
			answers[node] = known.Answer
			continue
		}
		unknown = append(unknown, node)
	}
	if len(unknown) == 0 {
		return answers
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found := d.reporter.ReportsOf(ctx, unknown, namespace)
	for node, next := range found {
		d.known[namespace+"/"+node] = answer{next, time.Now()}
	}
	maps.Copy(answers, found)
	return answers
}

// sample returns the pods whose drivers are asked: those that are on few nodes, the same ones each
// time.
func sample(pods []pod) (asked []pod, on []string) {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b pod) int { return cmp.Compare(a.uid, b.uid) })
	for _, p := range pods {
		isKnown := slices.Contains(on, p.node)
		if p.node == "" || !isKnown && len(on) == mostNodes {
			continue
		}
		if !isKnown {
			on = append(on, p.node)
		}
		asked = append(asked, p)
	}
	slices.SortFunc(asked, func(a, b pod) int { return cmp.Compare(a.name, b.name) })
	return asked, on
}

// addEvidence adds to the view of an edit under way what is in the files of its pods.
func (v *view) addEvidence(ctx context.Context, d *drivers, source statusz.Version, ref api.Ref) {
	if v.Ready == nil || len(v.shown) == 0 {
		return
	}
	asked, on := sample(v.shown)
	answers := d.ask(ctx, ref.Namespace, on)
	lacking, isAnswered, inFiles := map[string]string{}, false, 0
	for _, p := range asked {
		isAnswered = isAnswered || answers[p.node].Err == nil
		why := p.lacks(answers[p.node], source, ref, v.labels)
		if why == "" {
			inFiles++
			continue
		}
		lacking[p.uid] = why
	}
	if v.Asked = len(asked); isAnswered {
		v.InFiles = &inFiles
	}
	v.unasked = nodes.UnaskedIn(answers)
	v.WaitsFor = v.holders(asked, lacking)
}

// lacks returns why the files of a pod do not have a version of an object, or why that is not
// known; empty if all its volumes have it.
func (p pod) lacks(of nodes.Answer, source statusz.Version, ref api.Ref, labels map[string]string) string {
	if of.Err != nil {
		return "the driver of its node cannot be asked: " + of.Err.Reason()
	}
	now := versions.Now{Version: &source, OrNewer: true}
	for _, at := range p.places {
		if at.Names.Selects(ref, labels) {
			at.Names, at.Object = ref, ref // The report has it beside what else is selected.
		}
		if at.Names != ref {
			continue
		}
		verdict := versions.Pod{UID: p.uid, Report: &of.Report}.Judge(at, now)
		if verdict.State != versions.Current {
			return cmp.Or(verdict.Why, "its files have another version")
		}
	}
	return ""
}

// holders returns the pods that keep a step from its end, by the rules of the controller: a pod
// that is not Ready does so only if no pod of the step is.
func (v *view) holders(asked []pod, lacking map[string]string) (holders []holder) {
	if !release.State(v.State).IsStep() || v.settings.Evidence == settings.EvidenceNone || len(v.settings.Steps) == 0 {
		return nil
	}
	needsReady := v.settings.Check == settings.CheckReady
	for _, p := range asked {
		why := lacking[p.uid]
		if needsReady && !p.isReady {
			if why = "it is not Ready"; *v.Ready > 0 {
				continue
			}
		}
		if why != "" && len(holders) < mostHolders {
			holders = append(holders, holder{p.name, p.node, why})
		}
	}
	return holders
}
