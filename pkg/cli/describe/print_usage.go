package describe

import "fmt"

// usages writes pages about objects.
func (p *page) usages(all []*Usage) {
	for i, u := range all {
		if i > 0 || p.text.Len() > 0 {
			p.text.WriteString("\n")
		}
		p.usage(u)
	}
}

func (p *page) usage(u *Usage) {
	state := ""
	switch {
	case u.Unread != "":
		state = "not known: " + u.Unread
	case !u.Exists:
		state = "does not exist"
	case u.Released:
		state = "edits are released step by step: see kubectl liveconfig release status"
	}
	p.fields(0, "Kind", u.Kind, "Name", u.Name, "Namespace", u.Namespace, "State", state)
	rows := [][]string{{"WORKLOAD", "PODS", "NEW PODS", "USED AS", "AN EDIT ARRIVES"}}
	for _, use := range u.Uses {
		workload, isNew, as := use.Workload, "no", use.As
		if use.Namespace != u.Namespace {
			workload += " of namespace " + use.Namespace
		}
		if use.New {
			isNew = "yes"
		}
		if use.Names != "" {
			as += ", its copy " + use.Names
		}
		rows = append(rows, []string{workload, fmt.Sprint(use.Pods), isNew, as, use.Arrives})
	}
	p.section("Used By", rows)
	if !u.AllNamespaces {
		p.line(0, "Other Namespaces: not looked at; -A looks at all namespaces")
	}
}
