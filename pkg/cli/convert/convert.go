// Package convert is `kubectl liveconfig convert`.
//
// It does not know which volumes mean the same: that is up to pkg/cli/intree. It does not know what
// annotations of Reloader mean: that is up to pkg/rollout/reloader.
package convert

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
)

// The values of convert's --to.
const (
	toLiveconfig = "liveconfig"
	toInTree     = "in-tree"
	toTriggers   = "triggers"
)

type command struct {
	*session.Session

	input  manifest.Input
	to     string
	names  []string
	driver string

	// found are the names of volumes that were looked at.
	found []string
	// converted and refused count volumes, and workloads with annotations of Reloader.
	converted, refused int
	// marks are those of the ConfigMaps and Secrets among the manifests.
	marks map[api.Ref]reloader.Mark
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Rewrite in-tree volumes of manifests as volumes of liveconfig, and back",
		Long: "Prints the manifests with their configMap, secret and projected volumes as volumes of liveconfig that " +
			"hold the same\n" +
			"files, and with annotations of Reloader as the annotation that triggers the rollout controller. " +
			"Everything else stays\n" +
			"as it is, comments and order included. Standard error lists what is left as it is, and the reasons.",
		Example: "  kubectl liveconfig convert -f web.yaml > live.yaml\n" +
			"  kubectl liveconfig convert -f web.yaml --volume config | kubectl apply -f -\n" +
			"  kubectl liveconfig convert -f live.yaml --to=in-tree\n" +
			"  kubectl liveconfig convert -f web.yaml --to=triggers",
		Args: selection.FilesOnly,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	selection.AddManifestFlags(c, &o.input)
	selection.AddDriverFlag(c, &o.driver)
	c.Flags().StringVar(&o.to, "to", toLiveconfig,
		"liveconfig, in-tree, or triggers, which converts annotations of Reloader only")
	printing.Complete(c, "to", toLiveconfig, toInTree, toTriggers)
	c.Flags().StringSliceVar(&o.names, "volume", nil, "convert the volumes of this name only")
	return c
}

func (o *command) run() error {
	switch {
	case !slices.Contains([]string{toLiveconfig, toInTree, toTriggers}, o.to):
		return fmt.Errorf("--to %q is not %s, %s or %s", o.to, toLiveconfig, toInTree, toTriggers)
	case o.to == toTriggers && len(o.names) > 0:
		return fmt.Errorf("--to=%s converts no volumes: leave --volume out", toTriggers)
	}
	files, err := selection.ReadManifests(o.Session, o.input)
	if err != nil {
		return err
	}
	o.readMarks(files)
	var texts []string
	for _, file := range files {
		text, err := o.file(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		texts = append(texts, text)
	}
	if err := o.verdict(); err != nil {
		return err
	}
	o.remarkOnKustomization(files)
	_, err = io.WriteString(o.Out, manifest.Join(texts))
	return err
}

// verdict returns an error if nothing of what was asked for was done.
func (o *command) verdict() error {
	for _, name := range o.names {
		switch {
		case slices.Contains(o.found, name):
		case len(o.found) == 0:
			return fmt.Errorf("there is no volume %q: the manifests have no volumes", name)
		default:
			return fmt.Errorf("there is no volume %q, there are: %s", name, strings.Join(o.found, ", "))
		}
	}
	what := "volume"
	if o.to == toTriggers {
		what = "annotation of Reloader"
	}
	switch {
	case o.converted > 0:
		return nil
	case o.refused > 0:
		return fmt.Errorf("no %s was converted", what)
	default:
		o.Remark("note: there is no %s to convert", what)
		return nil
	}
}

func (o *command) file(file manifest.File) (string, error) {
	var b strings.Builder
	for _, part := range file.Parts() {
		if part.IsSeparator {
			b.WriteString(part.Text)
			continue
		}
		document, err := manifest.Parse(part)
		if err != nil {
			return "", err
		}
		text, dropped, err := document.Replace(slices.Concat(o.volumes(file.Name, document),
			o.annotations(file.Name, document)))
		if err != nil {
			return "", err
		}
		if len(dropped) > 0 {
			o.Remark("%s:%d: %d comments were lost: %s", file.Name, part.Line, len(dropped), strings.Join(dropped, " "))
		}
		b.WriteString(text)
		o.remarkOnEnvsubst(file.Name, document)
	}
	return b.String(), nil
}

func (o *command) volumes(file string, document manifest.Document) []manifest.Replacement {
	if o.to == toTriggers {
		return nil
	}
	var list []manifest.Replacement
	for _, spec := range document.PodSpecsAndPatches() {
		before := o.converted
		var all remarks
		for i, volume := range spec.Volumes() {
			at := spec.Path.Field("volumes").Index(i)
			name, _ := volume["name"].(string)
			if !slices.Contains(o.found, name) {
				o.found = append(o.found, name)
			}
			if len(o.names) > 0 && !slices.Contains(o.names, name) {
				continue
			}
			say := func(format string, args ...any) {
				all.add(fmt.Sprintf("%s:%d: %s", file, document.Line(at), spec.Object), name, fmt.Sprintf(format, args...))
			}
			r, needs, err := o.volume(volume, session.NamespaceOr(o.Session, spec.Namespace), containersOf(spec))
			switch {
			case errors.Is(err, intree.ErrOther) && len(o.names) == 0:
				continue
			case errors.Is(err, intree.ErrOther) && o.to == toInTree:
				err = fmt.Errorf("it is not a volume of %s", o.driver)
				fallthrough
			case err != nil:
				o.refused++
				say("not converted: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
				continue
			}
			o.converted++
			r.Object = at
			list = append(list, r)
			o.remarkOn(say, needs, r.Value)
		}
		o.print(all)
		if o.converted > before && o.to == toLiveconfig {
			o.remarkOnChecksums(file, document, spec)
		}
	}
	return list
}

func (o *command) remarkOnChecksums(file string, document manifest.Document, spec manifest.PodSpec) {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if manifest.Convert(spec.Metadata, &metadata) != nil {
		return // check prints what is wrong with them.
	}
	for _, note := range intree.ChecksumNotes(metadata.Annotations) {
		o.Remark("%s:%d: %s: note: %s", file, document.Line(spec.Path), spec.Object, note)
	}
}

// volume returns which field of a volume becomes which, and what it holds. It leaves out where the
// volume is.
func (o *command) volume(
	volume map[string]any, namespace string, containers []mounts.Container,
) (r manifest.Replacement, needs mounts.Needs, err error) {
	var v corev1.Volume
	if err := manifest.Convert(volume, &v); err != nil {
		return r, needs, fmt.Errorf("it is not what the API server takes: %w", err)
	}
	namer := intree.Namer{Driver: o.driver, Namespace: namespace}
	if o.to == toInTree {
		made, err := namer.ToInTree(withoutInPlace(v, containers))
		if err == nil {
			r.From = "csi"
			r.To, r.Value, err = sourceField(made)
		}
		return r, needs, err
	}
	made, needs, err := namer.Convert(v, containers)
	if err == nil {
		r.From, _, err = sourceField(v.VolumeSource)
	}
	if err != nil {
		return r, needs, err
	}
	r.To, r.Value, err = sourceField(corev1.VolumeSource{CSI: made})
	return r, needs, err
}

// withoutInPlace returns the volume without the policy that the conversion adds because of mounts.
func withoutInPlace(v corev1.Volume, containers []mounts.Container) corev1.VolumeSource {
	if v.CSI == nil || v.CSI.VolumeAttributes[api.KeyUpdatePolicy] != string(api.UpdateInPlace) {
		return v.VolumeSource
	}
	if needs, err := mounts.Of(containers, v.Name, api.Spec{}); err == nil && needs.InPlace() {
		delete(v.CSI.VolumeAttributes, api.KeyUpdatePolicy)
	}
	return v.VolumeSource
}

// sourceField returns the one field of a volume source that is set, as JSON has it.
func sourceField(v corev1.VolumeSource) (name string, value any, err error) {
	var fields map[string]any
	if err := manifest.Convert(v, &fields); err != nil {
		return "", nil, err
	}
	if len(fields) != 1 {
		return "", nil, fmt.Errorf("it has %d sources, and the API server takes one", len(fields))
	}
	for name, value = range fields {
		return name, value, nil
	}
	return "", nil, nil
}

func (o *command) remarkOn(say func(string, ...any), needs mounts.Needs, value any) {
	if o.to == toInTree {
		return
	}
	csi, _ := value.(map[string]any)
	attributes, _ := csi["volumeAttributes"].(map[string]any)
	arrives := ", which updates do not reach, as before: they do with"
	if needs.InPlace() {
		arrives = ": updates reach that by"
	}
	for _, container := range needs.Parts {
		say("note: container %s mounts a subPath of it%s updatePolicy: InPlace, where a reader may see a half-written file",
			container, arrives)
	}
	for _, place := range needs.Always {
		say("note: something is mounted at %s in it: mountPoints keeps a directory there", place)
	}
	remarkOnHash(say, value)
	sources, _ := attributes[api.KeySources].(string)
	if attributes[api.KeySecret] != nil || strings.Contains(sources, api.KeySecret+":") {
		say("note: its Secrets are read with the pods' service account, which needs a Role: see `kubectl liveconfig grant`")
	}
}
