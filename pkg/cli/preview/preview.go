// Package preview is `kubectl liveconfig preview`.
//
// It does not know how files come of volumes: the driver's parser and treebuilder do.
package preview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

type command struct {
	*session.Session

	input         manifest.Input
	kustomization string
	selector      string
	fromCluster   bool
	names         []string
	driver        string
	output        string
	diff          bool
	showSecrets   bool

	// given is what the files have.
	given Set
	// cached has the objects of the cluster. All volumes are made of the same.
	cached *observe.Objects
	// found are the names of volumes, failed counts those of which there is nothing to show.
	found  []string
	failed int
	// remarked are the remarks that were printed, each once.
	remarked map[string]bool
}

// The exit codes of preview. An error must not be taken for a difference.
const (
	exitDiffers      = 1
	exitPreviewError = 2
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s, remarked: map[string]bool{}}
	c := &cobra.Command{
		Use:         "preview [TYPE/NAME...] [-f FILE] [-k DIR]",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "pod", "job", "cronjob", "replicaset"),
		Short:       "Show which files volumes would hold",
		Long: "Shows the files that each volume of a pod or pod template would hold, by the code that the driver has: " +
			"paths, modes,\n" +
			"owners and digests. Volumes of Kubernetes' own types are shown as well; their tokens and downwardAPI files are " +
			"left out.\n\n" +
			"Pods come from the manifests, or by name from the cluster. ConfigMaps and Secrets come from the manifests first. " +
			"The\n" +
			"command reads the others from the cluster with --from-cluster, for named pods, and with --diff. It reads with " +
			"your\n" +
			"rights, and not with those of the pods.\n\n" +
			"Digests and lines of Secrets are not shown without --show-secrets. Exit codes: 0 is good, 1 is a difference " +
			"that --diff\n" +
			"has found, 2 is an error.",
		Example: "  kubectl liveconfig preview -f deployment.yaml -f configmap.yaml\n" +
			"  kubectl liveconfig preview -f deployment.yaml --from-cluster -o files\n" +
			"  kubectl liveconfig preview -k overlays/shop\n" +
			"  kubectl liveconfig preview deployment/web\n" +
			"  kubectl liveconfig preview deployment/web -f configmap.yaml --diff",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &session.Exit{Code: exitPreviewError, Err: fmt.Errorf("%w: see %s --help", err, c.CommandPath())}
	})
	selection.AddManifestFlags(c, &o.input)
	selection.AddKustomizeFlag(c, &o.kustomization)
	selection.AddDriverFlag(c, &o.driver)
	flags := c.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "labels that select objects of a named type, such as app=web")
	flags.BoolVar(&o.fromCluster, "from-cluster", false, "ask the cluster for ConfigMaps and Secrets that no file has")
	flags.StringSliceVar(&o.names, "volume", nil, "only the volumes of this name")
	flags.StringVarP(&o.output, "output", "o", "-", "- for the list alone, or an empty folder to write the files into")
	flags.BoolVar(&o.diff, "diff", false, "show what changes against what the cluster has now")
	flags.BoolVar(&o.showSecrets, "show-secrets", false,
		"show digests and lines of Secrets, and give their files in a folder the modes of the volume")
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	err := o.preview(ctx, args)
	if _, isExit := errors.AsType[*session.Exit](err); err == nil || isExit {
		return err
	}
	return &session.Exit{Code: exitPreviewError, Err: err}
}

func (o *command) preview(ctx context.Context, args []string) error {
	switch {
	case slices.Contains([]string{"", "json", "yaml", "name", "wide"}, o.output):
		return fmt.Errorf("--output %q is not known: use - for the list, or an empty folder, as in --output ./files",
			o.output)
	case o.diff && o.output != "-":
		return errors.New("--diff compares, and --output writes: use one of them")
	case len(args) == 0 && o.selector != "":
		return errors.New("--selector selects objects of the cluster: name a type, such as deployments")
	case len(args) == 0 && !o.hasFiles():
		return errors.New("name an object, such as deployment/web, or use --filename FILE or --kustomize DIR")
	}
	pods, err := o.pods(args)
	if err != nil {
		return err
	}
	if o.diff {
		return o.compare(ctx, pods)
	}
	if err := o.show(ctx, pods); err != nil || o.failed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d volumes cannot be shown: see above", o.failed, len(o.found))
}

func (o *command) pods(args []string) ([]Pod, error) {
	if err := o.readFiles(); err != nil {
		return nil, err
	}
	o.fromCluster = o.fromCluster || o.diff || len(args) > 0
	pods := o.given.Pods
	if len(args) > 0 {
		named, err := o.podsNamed(session.NamespaceOr(o.Session, ""), o.selector, args)
		if err != nil {
			return nil, err
		}
		for _, pod := range named {
			if !slices.ContainsFunc(pods, pod.IsSame) {
				pods = append(pods, pod)
			}
		}
	}
	if len(pods) == 0 {
		return nil, errors.New("no file has a pod or what makes pods: add one by --filename, or name an object of the " +
			"cluster, such as deployment/web")
	}
	return pods, nil
}

func (o *command) hasFiles() bool { return len(o.input.Names) > 0 || o.kustomization != "" }

func (o *command) readFiles() error {
	if !o.hasFiles() {
		return nil
	}
	files, err := selection.ReadRendered(o.Session, o.input, o.kustomization, "kubectl liveconfig preview")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if err := o.readFile(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (o *command) readFile(file manifest.File) error {
	var errs []error
	for document, err := range file.Documents() {
		if err == nil {
			err = o.given.Add(document.Data, session.NamespaceOr(o.Session, ""))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o *command) volumes(ctx context.Context, pod Pod) []Volume {
	ours, objects := o.objects(pod, o.noting(ctx)), o.objects(pod, o.content(ctx))
	all := o.wanted(Volumes(pod, o.driver, ours, objects, o.members(ctx, &o.given)))
	for _, v := range all {
		o.found = append(o.found, v.Name)
		if v.Err != nil {
			o.failed++
			o.Remark("%s: volume %s: %s", pod.Object(), v.Name, strings.ReplaceAll(v.Err.Error(), "\n", "; "))
		}
		o.remarkLacks(pod, v)
	}
	return all
}

// wanted leaves out what --volume does not name, and hides nothing with --show-secrets.
func (o *command) wanted(all []Volume) []Volume {
	all = slices.DeleteFunc(all, func(v Volume) bool { return len(o.names) > 0 && !slices.Contains(o.names, v.Name) })
	for i := range all {
		if o.showSecrets {
			all[i].Hidden = nil
		}
	}
	return all
}

func (o *command) remarkLacks(pod Pod, v Volume) {
	for _, what := range v.LeftOut {
		o.once("note: %s: volume %s: left out is %s, which only a running pod has", pod.Object(), v.Name, what)
	}
	for _, key := range v.Taken {
		o.once("note: %s: volume %s: left out is %s, because mountPoints keeps the place", pod.Object(), v.Name, key)
	}
	for _, key := range v.Collisions {
		o.once("note: %s: volume %s: left out of the selected objects is %s", pod.Object(), v.Name, key)
	}
	for _, ref := range v.Unfound {
		if !o.fromCluster {
			o.once("note: %s is in no file: add it by --filename, or ask the cluster with --from-cluster", ref)
		}
	}
}

func (o *command) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !o.remarked[text] {
		o.remarked[text] = true
		o.Remark("%s", text)
	}
}

func (o *command) show(ctx context.Context, pods []Pod) error {
	byPod := make([][]Volume, len(pods))
	for i, pod := range pods {
		byPod[i] = o.volumes(ctx, pod)
	}
	if err := o.verdict(); err != nil {
		return err
	}
	if o.output != "-" {
		if err := o.writeAll(pods, byPod); err != nil {
			return err
		}
	}
	var b strings.Builder
	for i, pod := range pods {
		b.WriteString(List(pod, byPod[i]))
	}
	_, err := fmt.Fprint(o.Out, printing.Plain(b.String()))
	return err
}

func (o *command) writeAll(pods []Pod, byPod [][]Volume) (err error) {
	folder, err := NewFolder(o.output)
	if err != nil {
		return fmt.Errorf("write the files: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	folder.Owns = os.Geteuid() == 0
	for i, pod := range pods {
		for _, v := range byPod[i] {
			if v.Err != nil {
				continue
			}
			if err := o.write(folder, placeOf(pod, pods), v); err != nil {
				return fmt.Errorf("write volume %s of %s into %s: %w", v.Name, pod.Object(), o.output, err)
			}
		}
	}
	return nil
}

// verdict returns an error if a volume that is asked for is not there.
func (o *command) verdict() error {
	for _, name := range o.names {
		if !slices.Contains(o.found, name) {
			return fmt.Errorf("there is no volume %q that holds ConfigMaps or Secrets", name)
		}
	}
	if len(o.found) == 0 {
		o.Remark("note: no volume holds ConfigMaps or Secrets; use --driver-name if %s is not the name of "+
			"liveconfig's driver", o.driver)
	}
	return nil
}

// placeOf returns where in the folder the volumes of a pod go: into the folder itself if there is
// no other pod.
func placeOf(pod Pod, all []Pod) string {
	if len(all) == 1 {
		return ""
	}
	place := pod.Namespace + "/" + pod.Object() + "/"
	isSame := func(p Pod) bool { return p.Namespace == pod.Namespace && p.Object() == pod.Object() }
	if at := slices.IndexFunc(all, isSame); !all[at].IsSame(pod) || slices.ContainsFunc(all[at+1:], isSame) {
		place += pod.Field + "/" // An object of several templates.
	}
	return place
}

func (o *command) write(folder *Folder, place string, v Volume) error {
	isOwned := func(f tree.File) bool { return v.Tree.UserOf(f) != 0 }
	if !folder.Owns && (v.Tree.UID+v.Tree.GID > 0 || slices.ContainsFunc(v.Tree.Files, isOwned)) {
		o.once("note: the files are yours, because only root can give them the owners of the list")
	}
	if v.hides(func(f tree.File) bool { return f.Mode&othersRead != 0 }) {
		o.once("note: files of Secrets are for their owner alone, unless you use --show-secrets: the list has their modes " +
			"in the volume")
	}
	return folder.Write(place+v.Name, v)
}

// objects returns what the sources of a pod hold. Files come before the cluster.
func (o *command) objects(pod Pod, cluster Objects) Objects {
	config, _ := trigger.ParseConfig(pod.Annotations[trigger.ConfigAnnotation]) // Without one there are no copies.
	sources := versions.Originals(config, pod.Namespace)
	return func(ref api.Ref) (api.Content, bool, error) {
		if content, found := o.given.Content(ref); found {
			return content, true, nil
		}
		if source, isCopy := sources[ref]; isCopy {
			if content, found := o.given.Content(source); found {
				o.once("note: %s: %s stands for %s, of which a file has the next content", pod.Object(), ref, source)
				return content, true, nil
			}
		}
		if !o.fromCluster {
			return api.Content{}, false, nil
		}
		return cluster(ref)
	}
}

// members returns the objects of a selection: those of the manifests, and those of the cluster that
// no manifest has.
func (o *command) members(ctx context.Context, given *Set) Members {
	return func(selection api.Ref) ([]Member, error) {
		found := given.Members(selection)
		if !o.fromCluster {
			return found, nil
		}
		if err := o.cache(); err != nil {
			return nil, err
		}
		objects, err := o.cached.List(ctx, selection)
		if err != nil {
			return nil, err
		}
		for ref, object := range objects {
			m := Member{Ref: ref, Created: object.GetCreationTimestamp().Time, Annotations: object.GetAnnotations()}
			if _, isGiven := given.Content(ref); !isGiven {
				found = append(found, m)
			}
			for i := range found {
				if found[i].Ref == ref {
					found[i].Created = m.Created
				}
			}
		}
		return found, nil
	}
}

// cache prepares to read the cluster.
func (o *command) cache() error {
	if o.cached != nil {
		return nil
	}
	client, err := o.Clientset()
	if err == nil {
		o.cached = observe.NewObjects(client)
	}
	return err
}

// content returns what sources hold in the cluster.
func (o *command) content(ctx context.Context) Objects {
	return func(ref api.Ref) (api.Content, bool, error) {
		if err := o.cache(); err != nil {
			return api.Content{}, false, err
		}
		object := o.cached.Of(ctx, ref)
		return object.Content, object.Exists(), object.Err
	}
}
