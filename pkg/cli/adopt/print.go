package adopt

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

func (o *command) print(r Report) error {
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, r)
	}
	var b strings.Builder
	for i, n := range r.Namespaces {
		if i > 0 {
			b.WriteString("\n")
		}
		if err := n.print(&b); err != nil {
			return err
		}
	}
	if len(r.Namespaces) == 0 {
		b.WriteString("no workload has a volume to convert\n")
	}
	switch policyState(r.Policy) {
	case policyMissing:
		fmt.Fprintf(&b, "\nThe API server would convert nothing: %s\n", r.Reason)
	case policyUnknown:
		fmt.Fprintf(&b, "\nWhether the API server has the policy is not known: %s\n", r.Reason)
	case policyFound:
	}
	_, err := io.WriteString(o.Out, printing.Plain(b.String()))
	return err
}

func (n *Namespace) print(b *strings.Builder) error {
	state := "would have"
	if n.Label == n.Value {
		state = "has"
	}
	fmt.Fprintf(b, "Namespace %s %s the label %s=%s\n", n.Name, state, admission.Label, n.Value)
	if len(n.Workloads) == 0 {
		b.WriteString("no workload has a volume to convert\n")
		return nil
	}
	rows := [][]string{{"WORKLOAD", "VOLUME", "NEW PODS", "NOTE"}}
	for _, w := range n.Workloads {
		for _, v := range w.Volumes {
			rows = append(rows, append([]string{w.Name, v.Name}, v.cells()...))
		}
		for _, note := range w.Notes {
			rows = append(rows, []string{w.Name, "", "", note})
		}
	}
	if err := printing.Table(b, 3, rows); err != nil {
		return err
	}
	if err := n.printMissing(b); err != nil {
		return err
	}
	return n.printOld(b)
}

func (v Volume) cells() []string {
	switch {
	case !v.Live:
		return []string{"in-tree", v.Reason}
	case v.UpdatePolicy != "":
		return []string{"live, " + v.UpdatePolicy, strings.Join(v.Notes, "; ")}
	default:
		return []string{"live", strings.Join(v.Notes, "; ")}
	}
}

func (n *Namespace) printMissing(b *strings.Builder) error {
	if len(n.Missing) == 0 {
		return nil
	}
	b.WriteString("\nRoles that are missing (--grant prints them, --grant=apply applies them):\n")
	rows := [][]string{{"SERVICE ACCOUNT", "OBJECT", "VERBS"}}
	for _, m := range n.Missing {
		rows = append(rows, []string{m.ServiceAccount, m.Object, strings.Join(m.Verbs, ", ")})
	}
	return printing.Table(b, 3, rows)
}

func (n *Namespace) printOld(b *strings.Builder) error {
	rows := [][]string{{"WORKLOAD", "OLD PODS", "NEXT"}}
	for _, w := range n.Workloads {
		isNew := n.Label != n.Value && w.Next != "" && strings.HasPrefix(w.Name, "cronjob/")
		if w.Old > 0 || isNew {
			rows = append(rows, []string{w.Name, strconv.Itoa(w.Old) + " of " + strconv.Itoa(w.Pods), w.Next})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	b.WriteString("\nPods with in-tree volumes keep them until they are replaced:\n")
	return printing.Table(b, 3, rows)
}
