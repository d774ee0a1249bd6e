// Package check is `kubectl liveconfig check`.
//
// It does not know the API server, which it asks only with --names=cluster whether objects exist.
// The parser of the driver knows what a mistake is.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

type command struct {
	*session.Session

	input         manifest.Input
	kustomization string
	driver        string
	names         string
	output        printing.Format
}

// The values of --names.
const (
	inManifests = "manifests"
	inCluster   = "cluster"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "check (-f FILE | -k DIR)",
		Short: "Find mistakes in volumes of manifests, without a cluster",
		Long: "Reads every volume of liveconfig in manifests, of whatever kind, as the driver would, and prints all " +
			"mistakes with their\n" +
			"lines. ConfigMaps and Secrets with the annotation " + release.Annotation +
			" are checked by its rules, as the controller does\n" +
			"with edits. Names without values in files with values are found if their objects are among the " +
			"manifests. What other\n" +
			"objects hold is not looked at: see preview. The exit code is 1 if there are mistakes.\n\n" +
			"A warning names sources that kustomize seems to have renamed. With --names, a source that is not optional " +
			"and does\n" +
			"not exist is a mistake, and so is a labelSelector that no object matches.\n\n" +
			"With -k, the manifests are what kustomize renders of a directory, with the lines that `kubectl kustomize` " +
			"prints, and\n" +
			"--names is manifests unless you set it. Nothing is fetched: remote bases, helmCharts and plugins are refused.",
		Example: "  kubectl liveconfig check -f web.yaml\n" +
			"  kubectl liveconfig check -k overlays/shop\n" +
			"  kubectl liveconfig check -k overlays/shop --names=cluster\n" +
			"  kubectl liveconfig check -R -f manifests -o json",
		Args: selection.FilesOnly,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.kustomization != "" && !c.Flags().Changed("names") {
				o.names = inManifests // A kustomization stands for itself, unlike a file.
			}
			return o.run(c.Context())
		},
	}
	selection.AddManifestFlags(c, &o.input)
	selection.AddKustomizeFlag(c, &o.kustomization)
	selection.AddDriverFlag(c, &o.driver)
	c.Flags().StringVar(&o.names, "names", "",
		"find names of objects that are not among the manifests (manifests), or neither there nor in the cluster (cluster); "+
			"manifests by default with -k")
	printing.Complete(c, "names", inManifests, inCluster)
	o.output.AddFlag(c, "json; lines by default", "json")
	return c
}

func (o *command) run(ctx context.Context) error {
	if !slices.Contains([]string{"", inManifests, inCluster}, o.names) {
		return fmt.Errorf("--names %q is not %s or %s", o.names, inManifests, inCluster)
	}
	files, err := selection.ReadRendered(o.Session, o.input, o.kustomization, "kubectl liveconfig check")
	if err != nil {
		return err
	}
	process, err := isolated.New()
	if err != nil {
		return err
	}
	checker := Checker{
		Driver: o.driver, Namespace: session.NamespaceOr(o.Session, ""),
		Rules: func(rules []settings.Rule, c validation.Content) ([]validation.Problem, error) {
			return process.Check(ctx, rules, c)
		},
	}
	for _, file := range files {
		checker.File(file)
	}
	search, err := o.search(ctx)
	if err != nil {
		return err
	}
	checker.Names(search)
	checker.Values()
	if err := o.print(checker.Findings); err != nil {
		return err
	}
	return o.verdict(checker)
}

// search returns where --names looks for objects, or nil.
func (o *command) search(ctx context.Context) (*Search, error) {
	switch o.names {
	case "":
		return nil, nil
	case inManifests:
		return &Search{"among the manifests", func(api.Ref) (bool, error) { return false, nil }}, nil
	}
	cluster, err := observe.New(o.Session, observe.Flags{Driver: o.driver})
	if err != nil {
		return nil, err
	}
	return &Search{"among the manifests or in the cluster", func(ref api.Ref) (bool, error) {
		if _, selects := ref.Selector(); selects {
			return cluster.Selects(ctx, ref)
		}
		found, err := cluster.Version(ctx, ref)
		return found.Version != nil, err
	}}, nil
}

func (o *command) print(findings []Finding) error {
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, append([]Finding{}, findings...)) // An empty list is [], and not null.
	}
	for _, finding := range findings {
		if _, err := fmt.Fprintln(o.Out, printing.PlainLine(finding.String())); err != nil {
			return err
		}
	}
	return nil
}

// verdict prints the result, and returns an error if there are mistakes.
func (o *command) verdict(c Checker) error {
	mistakes, checked := 0, c.Checked
	for _, finding := range c.Findings {
		if finding.Severity == Mistake {
			mistakes++
		}
	}
	switch {
	case mistakes > 0:
		return errors.New(printing.Counted(mistakes, "mistake"))
	case checked == Checked{} && c.InTree > 0:
		o.Remark("nothing was checked: the manifests have no volume of %s, and %s of Kubernetes' own types that "+
			"`kubectl liveconfig convert -f %s` converts",
			o.driver, printing.Counted(c.InTree, "volume"), cmp.Or(strings.Join(o.input.Names, " -f "), "FILE"))
		return nil
	case checked == Checked{}:
		o.Remark("nothing was checked: the manifests have no volume of %s; use --driver-name if the driver has another name",
			o.driver)
		return nil
	}
	var what []string
	if checked.Volumes > 0 {
		what = append(what, printing.Counted(checked.Volumes, "volume")+" of "+o.driver)
	}
	if checked.Released > 0 {
		what = append(what, printing.Counted(checked.Released, "released object"))
	}
	o.Remark("%s checked, no mistakes", strings.Join(what, " and "))
	return nil
}

// labelsOf returns the labels of an object. Values that are no text are left out: the API server
// refuses them.
func labelsOf(metadata map[string]any) map[string]string {
	written, _ := metadata["labels"].(map[string]any)
	has := make(map[string]string, len(written))
	for name, value := range written {
		if text, isText := value.(string); isText {
			has[name] = text
		}
	}
	return has
}

// released checks a ConfigMap or Secret with the release annotation: that, and the content by its
// rules.
func (c *Checker) released(file string, document manifest.Document, at manifest.Path, object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if !objects.IsServed(object) {
		return
	}
	content, _ := objects.Content(object, c.Namespace)
	r := review{c, file, document, release.NameOf(content.Ref)}
	c.noteObject(givenObject{r, at, content, labelsOf(metadata)})
	text, ok := annotations[release.Annotation].(string)
	if !ok {
		return
	}
	c.Checked.Released++
	s, mistakes := settings.Parse(text)
	annotation := at.Field("metadata", "annotations", release.Annotation)
	for _, m := range mistakes {
		r.add(Mistake, document.LineOfText(annotation, m.Line), annotation.String(), "%s", m)
	}
	problems, err := c.Rules(s.Rules, validation.Content{
		Data: content.Data, IsSecret: content.Ref.Kind == api.Secret, Now: time.Now(),
	})
	if err != nil {
		r.mistake(annotation, "%s", err)
	}
	for _, p := range problems {
		value, fields := at.Field("data"), []string{"data", "stringData", "binaryData"}
		if i := slices.IndexFunc(fields, func(f string) bool { return document.Written(at.Field(f, p.Key)) != "" }); i >= 0 {
			value = at.Field(fields[i], p.Key)
		}
		r.add(Mistake, document.LineOfText(value, p.Line), value.String(), "%s", p)
	}
}
