package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// page is what is printed for people.
type page struct {
	text strings.Builder
	// now is what ages are counted from.
	now time.Time
	// mostPods limits the pods that are shown, which are not current then. Zero shows all pods.
	mostPods int
	missing  missing
}

func (p *page) format(all ...Description) string {
	for i, d := range all {
		if i > 0 {
			p.text.WriteString("\n")
		}
		for _, pod := range d.Pods {
			p.missing.add(pod)
		}
		p.one(d)
	}
	return p.text.String()
}

// lines is a text of several lines. All other texts are of one: texts from objects cannot add
// lines.
type lines string

func (p *page) line(level int, format string, args ...any) {
	for i, arg := range args {
		if text, isText := arg.(string); isText {
			args[i] = oneLine(text)
		}
	}
	p.text.WriteString(strings.Repeat("  ", level) + fmt.Sprintf(format, args...) + "\n")
}

func oneLine(text string) string { return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text) }

func (p *page) table(level int, rows [][]string) {
	var b strings.Builder
	_ = printing.Table(&b, 2, rows) // A builder takes everything.
	for line := range strings.Lines(b.String()) {
		p.line(level, "%s", strings.TrimRight(line, " \n"))
	}
}

// fields writes names and values, of which the values that are empty are left out.
func (p *page) fields(level int, pairs ...string) {
	var rows [][]string
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			rows = append(rows, []string{pair[0] + ":", pair[1]})
		}
	}
	p.table(level, rows)
}

func (p *page) one(d Description) {
	p.fields(0, "Kind", d.Kind, "Name", d.Name, "Namespace", d.Namespace, "Service Account", d.ServiceAccount)
	p.rollout(d.Rollout)
	p.line(0, "Volumes:%s", orNone(len(d.Volumes)))
	for _, v := range d.Volumes {
		p.volume(d, v)
	}
	p.left(d.LeftInTree)
	p.section("Other Uses", others(d))
	p.section("Objects", p.objects(d))
	p.pods(d)
	p.eventsOf(d)
	p.unknown(d.Unknown)
}

func (p *page) left(volumes []string) {
	if len(volumes) == 0 {
		return
	}
	p.line(0, "Left In Tree:")
	for _, volume := range volumes {
		p.line(1, "%s", volume)
	}
}

// section writes rows below a title. The first row has the names of the columns.
func (p *page) section(title string, rows [][]string) {
	p.line(0, "%s:%s", title, orNone(len(rows)-1))
	if len(rows) > 1 {
		p.table(1, rows)
	}
}

func orNone(n int) string {
	if n == 0 {
		return " none"
	}
	return ""
}

func (p *page) rollout(r *Rollout) {
	if r == nil {
		return
	}
	p.line(0, "Rollout:")
	p.fields(1, "Triggered By", r.TriggeredBy, "Revision", r.Revision, "State", r.State,
		"After Undo", r.AfterUndo, "While Failing", r.WhileFailing)
	p.copies("Copies", r.Copies)
	p.copies("Not Rolled Out", r.Newer)
}

func (p *page) copies(title string, list []Copy) {
	if len(list) == 0 {
		return
	}
	p.line(1, "%s:", title)
	for _, c := range list {
		switch {
		case c.Unused != "":
			p.line(2, "none of %s, which pods do not use: version %s", c.Of, c.Unused)
		case c.Copy == "":
			p.line(2, "none of %s, which does not exist", c.Of)
		default:
			p.line(2, "%s of %s", c.Copy, c.Of)
		}
	}
}

func (p *page) volume(d Description, v Volume) {
	p.line(1, "%s:", v.Name)
	for _, mistake := range v.Mistakes {
		p.line(2, "Mistake: %s", mistake)
	}
	p.fields(2, "Update Policy", v.UpdatePolicy, "On Delete", v.OnDelete, "Default Mode", v.DefaultMode, "Owner", owner(v),
		"Mount Points", strings.Join(v.MountPoints, ", "))
	p.line(2, "Mounts:%s", orNone(len(v.Mounts)))
	for _, m := range v.Mounts {
		p.line(3, "%s%s", mount(m), mountNote(m, v.UpdatePolicy))
	}
	if len(v.Sources) == 0 {
		return
	}
	p.line(2, "Sources:")
	rows := [][]string{{"OBJECT", "OPTIONAL", "KEYS"}}
	for _, s := range v.Sources {
		rows = append(rows, []string{called(s.Object, s.CopyOf, d.Namespace), fmt.Sprint(s.Optional), keys(s)})
	}
	p.table(3, rows)
}

func called(ref api.Ref, copyOf, namespace string) string {
	if copyOf != "" {
		return nameIn(namespace, ref) + ", a copy of " + copyOf
	}
	return nameIn(namespace, ref)
}

func owner(v Volume) string {
	if v.UpdatePolicy == "" {
		return ""
	}
	if v.GID == nil && v.FSGroup != nil {
		return fmt.Sprintf("uid %d, gid %d (the pod's fsGroup)", ptr.Deref(v.UID, 0), *v.FSGroup)
	}
	return fmt.Sprintf("uid %d, gid %d", ptr.Deref(v.UID, 0), ptr.Deref(v.GID, 0))
}

func mount(m Mount) string {
	if m.SubPath != "" {
		return m.Container + " at " + m.Path + ", subPath " + m.SubPath
	}
	return m.Container + " at " + m.Path
}

// mountNote returns what a user must know of changes at a mount.
func mountNote(m Mount, policy string) string {
	isReplaced := policy == string(api.UpdateAtomic) || policy == string(api.UpdateReplace)
	switch {
	case isReplaced && m.SubPath != "":
		return " (never updated: it would be with updatePolicy InPlace)"
	case isReplaced:
		return " (watch this directory, not its files)" // A watch of a file is of the one that the next change removes.
	case policy == string(api.UpdateInPlace) && m.SubPath != "":
		return " (updated, file by file in place)"
	default:
		return ""
	}
}

func keys(s Source) string {
	list := make([]string, len(s.Items))
	for i, item := range s.Items {
		list[i] = item.Key
		if item.Path != item.Key {
			list[i] += " as " + item.Path
		}
		list[i] += mode(item.Mode)
		if item.User != nil {
			list[i] += fmt.Sprintf(" (uid %d)", *item.User)
		}
	}
	text := strings.Join(list, ", ")
	if len(list) == 0 {
		text = "all"
	}
	if s.As != nil {
		text += fmt.Sprintf(", in one file %s (%s)%s", s.As.Path, s.As.Format, mode(s.As.Mode))
	}
	return text
}

func mode(octal string) string {
	if octal == "" {
		return ""
	}
	return " mode " + octal
}

func (p *page) objects(d Description) [][]string {
	rows := [][]string{{"OBJECT", "VERSION", "CHANGED", "PODS"}}
	for _, o := range d.Objects {
		version, changed := "does not exist", ""
		if o.Exists {
			version = o.Version.ResourceVersion
		}
		switch {
		case o.Exists && o.Unread != "":
			version += ", the newest that a node knows"
		case o.Unread != "":
			version = "not known"
		}
		if o.Copy != "" {
			version += ", copied as " + o.Copy
		}
		if !o.ChangedAt.IsZero() {
			changed = p.age(o.ChangedAt) + " ago"
		}
		rows = append(rows, []string{nameIn(d.Namespace, o.Ref), version, changed, tally(o.Pods)})
	}
	return rows
}

// tally returns how many pods are in each state, the good ones first.
func tally(pods map[versions.State]int) string {
	var list []string
	for _, s := range versions.States() {
		if pods[s] > 0 {
			list = append(list, fmt.Sprintf("%d %s", pods[s], strings.ToLower(string(s))))
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// age is how long a time is in the past; of one in the future, by another clock, it is nothing.
func (p *page) age(t time.Time) string { return duration.HumanDuration(max(0, p.now.Sub(t))) }

// eventsOf writes the Events. The Event about an edit may come later than the files: without
// Events, the page has the time at which files were written last.
func (p *page) eventsOf(d Description) {
	last, pod := lastProjection(d.Pods)
	if len(d.Events) > 0 || pod == "" {
		p.section("Events", p.events(d.Events))
		return
	}
	p.line(0, "Events: none; files last written %s ago, those of pod %s", p.age(last), pod)
}

// lastProjection returns when files were written last, and of which pod; no pod if that is not
// known.
func lastProjection(pods []Pod) (last time.Time, name string) {
	for _, pod := range pods {
		for _, v := range pod.Volumes {
			if v.ProjectedAt.After(last) {
				last, name = v.ProjectedAt, pod.Name
			}
		}
	}
	return last, name
}

func (p *page) events(events []Event) [][]string {
	rows := [][]string{{"TYPE", "REASON", "AGE", "OBJECT", "FROM", "MESSAGE"}}
	for _, e := range events {
		age := p.age(e.Last)
		if e.Count > 1 {
			age += fmt.Sprintf(" (x%d)", e.Count)
		}
		message := strings.Join(strings.Fields(e.Message), " ") // Some have manifests in them.
		rows = append(rows, []string{e.Type, e.Reason, age, e.Object, e.From, message})
	}
	return rows
}

const mostUnknown = 20

func (p *page) unknown(list []Unknown) {
	if len(list) == 0 {
		return
	}
	p.line(0, "Not Known:")
	for i, u := range list {
		if i == mostUnknown {
			p.line(1, "and %d more: see -o json", len(list)-mostUnknown)
			return
		}
		p.line(1, "%s: %s", u.What, u.Why)
		if u.Type != "" {
			p.line(2, "%s", u.Type)
		}
	}
}
