package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

type rolloutHistory struct {
	rolloutTargets
	*session.Session

	revision int64
	output   printing.Format
	secrets  bool

	// listed is what -o prints.
	listed []listedWorkload
}

func newRolloutHistory(s *session.Session) *cobra.Command {
	o := &rolloutHistory{Session: s}
	c := &cobra.Command{
		Use:         "history TYPE/NAME",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset"),
		Short:       "Show the revisions of a workload with the config that each has",
		Long: "Shows which copies of what triggers rollouts the pods of each revision use, and which revision is " +
			"current or was\n" +
			"undone. Copies that are gone are marked: pods of that revision cannot start. With --revision it shows what that\n" +
			"revision has otherwise than the one before it, of Secrets without their values.",
		Example: "  kubectl liveconfig rollout history deployment/web\n" +
			"  kubectl liveconfig rollout history deployment/web --revision=3\n" +
			"  kubectl liveconfig rollout history statefulset -l app=db -o json",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.addFlags(c)
	flags := c.Flags()
	flags.Int64Var(&o.revision, "revision", 0, "show this revision, and how its config differs from the one before")
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	flags.BoolVar(&o.secrets, "show-secrets", false, "show values of Secrets")
	return c
}

func (o *rolloutHistory) run(ctx context.Context, args []string) error {
	if o.revision < 0 {
		return fmt.Errorf("--revision %d is not a revision: revisions are numbered from 1", o.revision)
	}
	client, err := o.Clientset()
	if err != nil {
		return err
	}
	err = o.Each(o.Session, args, func(info *resource.Info) error { return o.one(ctx, client, info) })
	if len(o.listed) == 0 {
		return err
	}
	return errors.Join(o.output.Encode(o.Out, o.listed), err)
}

func (o *rolloutHistory) one(ctx context.Context, client kubernetes.Interface, info *resource.Info) error {
	history, err := observe.HistoryOf(ctx, client, info.Object, o.driver)
	if err != nil {
		return err
	}
	shown := history.Revisions
	if o.revision != 0 {
		found, err := history.Find(o.revision)
		if err != nil {
			return err
		}
		shown = []revisions.Revision{found}
	}
	objects := observe.NewObjects(client)
	list := listedWorkload{Workload: fullName(info), Revisions: []listedRevision{}}
	for _, r := range shown {
		list.Revisions = append(list.Revisions, o.listedOf(ctx, objects, r))
	}
	switch {
	case o.output.IsEncoded():
		o.listed = append(o.listed, list)
		return nil
	case o.revision != 0:
		return o.printOne(ctx, objects, history, shown[0], list)
	default:
		return o.printTable(history, list)
	}
}

type listedWorkload struct {
	Workload  string           `json:"workload"`
	Revisions []listedRevision `json:"revisions"`
}

type listedRevision struct {
	Revision    int64          `json:"revision"`
	Name        string         `json:"name"`
	Created     time.Time      `json:"created"`
	Current     bool           `json:"current"`
	Undone      bool           `json:"undone"`
	ChangeCause string         `json:"changeCause,omitempty"`
	Problem     string         `json:"problem,omitempty"`
	Config      []listedConfig `json:"config"`
}

type listedConfig struct {
	Source string `json:"source"`
	// Copy is empty where pods use the source itself.
	Copy string `json:"copy,omitempty"`
	// Unused is the version of a source that pods do not use.
	Unused string `json:"unused,omitempty"`
	// State is that of the copy, or of the source.
	State configState `json:"state"`
	// Reason explains the state.
	Reason string `json:"reason,omitempty"`
}

// configState is what is known of what a revision uses.
type configState string

const (
	stateThere   configState = "there"
	stateGone    configState = "gone"
	stateWrong   configState = "not the copy" // Something else has its name, or its content was changed.
	stateUnknown configState = "unknown"
	stateSource  configState = "itself" // Pods use the source, whatever it holds.
	stateAbsent  configState = "absent" // The source did not exist, and need not.
	stateUnused  configState = "unused" // The source triggers, and pods do not use it.
)

func (o *rolloutHistory) listedOf(ctx context.Context, objects *observe.Objects, r revisions.Revision) listedRevision {
	listed := listedRevision{
		Revision: r.Number, Name: r.Name, Created: r.Created, Current: r.Current, Undone: r.Undone,
		ChangeCause: r.Cause, Config: []listedConfig{},
	}
	if r.Problem != nil {
		listed.Problem = r.Problem.Error()
	}
	for _, item := range r.Items {
		state, err := stateOf(ctx, objects, r, item)
		config := listedConfig{Source: item.Source.String(), Copy: item.Copy, Unused: item.Unused, State: state}
		if err != nil {
			config.Reason = err.Error()
		}
		listed.Config = append(listed.Config, config)
	}
	return listed
}

// stateOf finds out whether the objects of a revision exist. The error explains the state, and does
// not fail the command.
func stateOf(
	ctx context.Context, objects *observe.Objects, of revisions.Revision, item revisions.Item,
) (configState, error) {
	switch {
	case item.Absent:
		return stateAbsent, nil
	case item.Unused != "":
		return stateUnused, nil
	case item.IsSource():
		return stateSource, nil
	}
	switch is := objects.Of(ctx, item.Used().In(of.Namespace)); {
	case is.Err != nil:
		return stateUnknown, fmt.Errorf("read %s: %w", item.Used(), is.Err)
	case !is.Exists():
		return stateGone, nil
	case is.Verified != nil:
		return stateWrong, is.Verified
	default:
		return stateThere, nil
	}
}

func (o *rolloutHistory) printTable(history revisions.History, list listedWorkload) error {
	rows := [][]string{{"REVISION", "CREATED", "STATE", "CHANGE-CAUSE", "CONFIG"}}
	for _, r := range list.Revisions {
		configs := configTexts(r)
		cause := cmp.Or(r.ChangeCause, noValue)
		rows = append(rows, []string{fmt.Sprint(r.Revision), printing.Time(r.Created), stateText(r), cause, configs[0]})
		for _, config := range configs[1:] {
			rows = append(rows, []string{"", "", "", "", config})
		}
	}
	if err := o.table(list.Workload, rows); err != nil {
		return err
	}
	o.remarkOn(history, list)
	return nil
}

func (o *rolloutHistory) remarkOn(history revisions.History, list listedWorkload) {
	ref := history.Workload.Ref
	if _, found := history.Current(); !found && history.Workload.Paused {
		o.Remark("note: %s is paused, and its pod template is not a revision before `kubectl liveconfig rollout resume %s`",
			ref, ref)
	}
	if !history.OptedIn {
		o.Remark("note: nothing triggers rollouts of %s: see `kubectl liveconfig set trigger`", ref)
	}
	var printed []string
	for _, r := range list.Revisions {
		for _, config := range r.Config {
			if config.Reason != "" && !slices.Contains(printed, config.Reason) {
				printed = append(printed, config.Reason)
				o.Remark("note: %s", config.Reason)
			}
		}
	}
}

func (o *rolloutHistory) printOne(
	ctx context.Context, objects *observe.Objects, history revisions.History, r revisions.Revision, list listedWorkload,
) error {
	listed := list.Revisions[0]
	rows := [][]string{
		{"Created:", printing.Time(r.Created)},
		{"State:", cmp.Or(stateText(listed), noValue)},
		{"Change cause:", cmp.Or(r.Cause, noValue)},
	}
	for i, config := range configTexts(listed) {
		rows = append(rows, []string{[]string{"Config:", ""}[min(i, 1)], config})
	}
	before, found := history.Before(r.Number)
	if found {
		others, err := revisions.OtherChanges(before, r, template.Place{Namespace: r.Namespace, Driver: o.driver})
		if err != nil {
			return err
		}
		rows = append(rows, []string{"Compared with:", fmt.Sprintf("revision %d", before.Number)},
			[]string{"Other changes:", cmp.Or(strings.Join(others, ", "), noValue)})
	}
	if err := o.table(fmt.Sprintf("%s with revision #%d", list.Workload, r.Number), rows); err != nil {
		return err
	}
	if !found {
		o.Remark("note: revision %d is the oldest that is stored: nothing to compare it with", r.Number)
		return nil
	}
	return configDiff{Session: o.Session, objects: objects, secrets: o.secrets}.show(ctx, before, r)
}

// noValue stands for an empty value, as in kubectl.
const noValue = "<none>"

func (o *rolloutHistory) table(title string, rows [][]string) error {
	var b strings.Builder
	_ = printing.Table(&b, 3, rows) // A builder takes everything.
	_, err := fmt.Fprintf(o.Out, "%s\n%s\n", title, b.String())
	return err
}

func stateText(r listedRevision) string {
	switch {
	case r.Current:
		return "current"
	case r.Undone:
		return "undone"
	default:
		return ""
	}
}

// configTexts describes the config of a revision in at least one line.
func configTexts(r listedRevision) []string {
	if r.Problem != "" {
		return []string{r.Problem}
	}
	var texts []string
	for _, config := range r.Config {
		texts = append(texts, config.String())
	}
	if texts == nil {
		return []string{noValue}
	}
	return texts
}

// String describes it for people.
func (c listedConfig) String() string {
	switch c.State {
	case stateThere:
		return c.Source + " as " + c.Copy
	case stateSource, stateAbsent:
		return c.Source + " " + string(c.State)
	case stateUnused:
		return c.Source + " not used by pods, version " + c.Unused
	default:
		return fmt.Sprintf("%s as %s (%s)", c.Source, c.Copy, c.State)
	}
}
