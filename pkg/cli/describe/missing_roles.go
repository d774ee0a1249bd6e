package describe

import (
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// missing are the manifests of Roles that pods lack, each once. They stand at the end of a page,
// from the first column on, so that people can paste them.
type missing []string

// mostRoles limits the manifests on a page.
const mostRoles = 20

// add adds the Roles for what the node reports as denied about a pod. The manifests come from the
// object and its reader, and not from the report: nobody pastes what another program wrote.
func (m *missing) add(pod Pod) {
	for _, s := range pod.sources() {
		id, isKnown := identity.Parse(s.ReadBy)
		if !isKnown {
			continue
		}
		role := identity.Grant(id, s.Object)
		if role != "" && !slices.Contains(*m, role) && pod.reports(strings.TrimSpace(role)) {
			*m = append(*m, role)
		}
	}
}

// reports reports whether a message about the pod has the text in it.
func (p *Pod) reports(text string) bool {
	isInSource := func(s *PodSource) bool { return strings.Contains(s.Error, text) || strings.Contains(s.Why, text) }
	isInProblem := func(v PodVolume) bool { return v.Problem != nil && strings.Contains(v.Problem.Message, text) }
	return slices.ContainsFunc(p.sources(), isInSource) || slices.ContainsFunc(p.Volumes, isInProblem)
}

// without returns a message that names the Roles instead of holding them.
func (m *missing) without(message string) string {
	for _, role := range *m {
		message = strings.ReplaceAll(message, "apply:\n"+role, "apply its Role, see below")
		message = strings.ReplaceAll(message, "apply:\n"+strings.TrimSpace(role), "apply its Role, see below")
	}
	return message
}

func (p *page) missingRoles() {
	if len(p.missing) == 0 {
		return
	}
	p.text.WriteString("\n# Missing Roles, for kubectl apply -f -\n")
	for i, role := range p.missing {
		if i == mostRoles {
			p.line(0, "# and %d more: kubectl liveconfig grant prints those of a workload", len(p.missing)-mostRoles)
			return
		}
		if i > 0 {
			p.line(0, "---")
		}
		p.text.WriteString(role)
	}
}
