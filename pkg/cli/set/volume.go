package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

type setVolume struct {
	*edit.Edit

	sources sourceFlags
	mount   Mount
	name    string
	driver  string
	remove  bool
	// given are the attributes beside the sources, from flags. The driver's parser checks them.
	given map[string]*string
}

func newSetVolume(s *session.Session) *cobra.Command {
	o := &setVolume{Edit: edit.New(s, "updated"), given: map[string]*string{}}
	c := &cobra.Command{
		Use:         "volume TYPE/NAME (--configmap NAME | --secret NAME)... --mount-path PATH",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "job", "cronjob"),
		Short:       "Add, change or remove a volume of liveconfig",
		Long: "Puts a volume of liveconfig into the pods of a workload, in the place of the one of the same name, and " +
			"mounts it in\n" +
			"all containers or the named ones. With several sources, what a later one projects overwrites the same " +
			"path of an\n" +
			"earlier one, and --item, --optional and --from-namespace belong to the source before them.",
		Example: "  kubectl liveconfig set volume deployment/web --configmap web --mount-path /etc/web\n" +
			"  kubectl liveconfig set volume deployment/web --secret tls --item tls.key=key:0400 --mount-path /tls -c nginx\n" +
			"  kubectl liveconfig set volume deployment/web --name all --configmap base --configmap extra --optional " +
			"--mount-path /etc/all\n" +
			"  kubectl liveconfig set volume --local -f web.yaml --configmap web --mount-path /etc/web -o yaml\n" +
			"  kubectl liveconfig set volume deployment/web --remove --name all",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddFlags(c)
	o.sources.addFlags(c)
	o.sources.addFirstFlags(c)
	flags := c.Flags()
	flags.StringVar(&o.mount.Path, "mount-path", "",
		"where containers see the volume; without, a volume that exists stays mounted as it is")
	flags.StringVar(&o.mount.SubPath, "sub-path", "",
		"mount only this path of the volume; updates reach it with --update-policy InPlace")
	flags.StringSliceVarP(&o.mount.Containers, "container", "c", nil,
		"containers that mount it; all but init containers by default")
	flags.StringVar(&o.name, "name", "", "name of the volume; that of the first source by default")
	flags.BoolVar(&o.remove, "remove", false, "remove the volume and its mounts")
	selection.AddDriverFlag(c, &o.driver)
	for _, f := range [][3]string{
		{"uid", api.KeyUID, "owner of all files"},
		{"gid", api.KeyGID, "group of all files; the pod's fsGroup by default"},
		{"default-mode", api.KeyDefaultMode, "octal mode of files whose item has none, such as 0440"},
		{"update-policy", api.KeyUpdatePolicy, "Atomic, Replace, InPlace or Never"},
		{"on-delete", api.KeyOnDelete, "Keep or Remove: what happens to files whose required source goes away"},
	} {
		o.given[f[1]] = flags.String(f[0], "", f[2])
	}
	printing.Complete(c, "update-policy", string(api.UpdateAtomic), string(api.UpdateReplace), string(api.UpdateInPlace),
		string(api.UpdateNever))
	printing.Complete(c, "on-delete", string(api.OnDeleteKeep), string(api.OnDeleteRemove))
	return c
}

func (o *setVolume) run(ctx context.Context, args []string) error {
	sources, err := o.sources.complete()
	if err != nil {
		return err
	}
	if o.remove {
		return o.runRemove(args, sources)
	}
	if len(sources) == 0 {
		return errors.New("name the content of the volume: --configmap NAME or --secret NAME, or use --remove")
	}
	volume, err := o.volume(sources)
	if err != nil {
		return err
	}
	o.remarkOn(ctx, sources)
	return o.Run(args, func(info *resource.Info, w selection.Workload) error {
		if err := o.changeable(w); err != nil {
			return err
		}
		namespace := selection.NamespaceOfPods(info, w)
		wanted, err := api.Parse(volume.CSI.VolumeAttributes, namespace)
		if err != nil {
			return err
		}
		if err := o.keepsSources(w, volume.Name, namespace, wanted); err != nil {
			return err
		}
		return Set(&w.Template.Spec, *volume.DeepCopy(), o.mount)
	})
}

func (o *setVolume) runRemove(args []string, sources []api.Source) error {
	if len(sources) > 0 || o.mount.Path != "" {
		return errors.New("--remove takes --name, and no flag about the content of a volume")
	}
	return o.Run(args, func(_ *resource.Info, w selection.Workload) error {
		if err := o.changeable(w); err != nil {
			return err
		}
		return Remove(&w.Template.Spec, o.name, o.driver)
	})
}

// changeable returns an error for an object of the cluster whose volumes nobody can change, or
// whose maker would not keep the change.
func (o *setVolume) changeable(w selection.Workload) error {
	kind := strings.ToLower(w.Object.GetObjectKind().GroupVersionKind().Kind)
	owner := metav1.GetControllerOfNoCopy(w.Meta)
	switch {
	case o.Local, o.Output.DryRun == printing.DryRunClient, !slices.Contains([]string{"pod", "job", "replicaset"}, kind):
		return nil
	case owner != nil:
		return fmt.Errorf("this %s is managed by a %s: change %s/%s instead", kind, owner.Kind, strings.ToLower(owner.Kind),
			owner.Name)
	case kind == "replicaset":
		return nil
	}
	return fmt.Errorf("volumes of a %s cannot be changed: change its manifest with --local -f FILE -o yaml, and make "+
		"the %[1]s again", kind)
}

// keepsSources returns an error if the name of the volume is a default, and the volume of that name
// holds something else.
func (o *setVolume) keepsSources(w selection.Workload, name, namespace string, wanted api.Spec) error {
	at := slices.IndexFunc(w.Template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == name && isOf(v, o.driver)
	})
	if o.name != "" || at < 0 {
		return nil
	}
	// The replacement also mends mistakes of the old volume.
	there, _ := api.Parse(w.Template.Spec.Volumes[at].CSI.VolumeAttributes, namespace)
	for _, ref := range slices.Concat(there.Refs(), there.Selected()) {
		if !slices.Contains(wanted.Refs(), ref) {
			return fmt.Errorf("volume %s is there already, and holds %s: use another --name, or --name %[1]s to replace it",
				name, ref)
		}
	}
	return nil
}

func (o *setVolume) volume(sources []api.Source) (corev1.Volume, error) {
	all, err := attributes.Of(sources)
	if err != nil {
		return corev1.Volume{}, err
	}
	for key, value := range o.given {
		if *value != "" {
			all[key] = *value
		}
	}
	return corev1.Volume{
		Name: cmp.Or(o.name, volumeName(sources[0].Ref.Name)),
		VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: o.driver, ReadOnly: new(true), VolumeAttributes: all,
		}},
	}, nil
}

// volumeName makes the name of an object one of a volume, which has no dots and is shorter.
func volumeName(object string) string {
	name := strings.ReplaceAll(object, ".", "-")
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength)], "-")
}

// isInstalled reports whether the cluster knows the driver. Where the user may not look, it does.
func (o *setVolume) isInstalled(ctx context.Context) bool {
	client, err := o.Clientset()
	if err != nil {
		return true
	}
	_, err = client.StorageV1().CSIDrivers().Get(ctx, o.driver, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

func (o *setVolume) remarkOn(ctx context.Context, sources []api.Source) {
	if !o.Local && !o.isInstalled(ctx) {
		o.Remark("warning: the cluster has no CSIDriver object %s, so pods with the volume will not start: "+
			"install the driver, or use --driver-name if it has another name", o.driver)
	}
	if o.mount.SubPath != "" && *o.given[api.KeyUpdatePolicy] != string(api.UpdateInPlace) {
		o.Remark("note: a sub-path mount stays what it was at the container's start: use --update-policy InPlace to let " +
			"updates reach it")
	}
	isForeign := func(src api.Source) bool { return src.Ref.Namespace != "" }
	isSecret := func(src api.Source) bool { return src.Ref.Kind == api.Secret }
	foreign := slices.IndexFunc(sources, isForeign)
	switch {
	case foreign >= 0:
		o.Remark("note: the pods' service account needs a Role in namespace %s: see `kubectl liveconfig grant "+
			"--source-namespace %[1]s`",
			sources[foreign].Ref.Namespace)
	case slices.ContainsFunc(sources, isSecret):
		o.Remark("note: the pods' service account needs a Role, unless the driver reads Secrets by itself: see `kubectl " +
			"liveconfig grant`")
	}
}

// sourceFlags collects sources in the order of the command line. Flags about a source come after
// it; with one source, they may also come before.
type sourceFlags struct {
	sources []api.Source
	// early are the flags before the first source.
	early []detail
	// kind is the one kind that sources may have, by -t.
	kind string
}

type detail struct {
	flag string
	set  func(*api.Source)
}

func (f *sourceFlags) addFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.Func("configmap", "`name` of a ConfigMap to project; may be repeated, as --secret may", f.source(api.ConfigMap))
	flags.Func("secret", "`name` of a Secret to project", f.source(api.Secret))
	flags.Func("item", "`key=path[:mode]` of the source: only keys that items name are there; may be repeated",
		func(text string) error {
			item, err := ParseItem(text)
			f.add("item", func(src *api.Source) { src.Items = append(src.Items, item) })
			return err
		})
	flags.Func("from-namespace", "`namespace` of the source, whose owner has to consent: see grant",
		func(namespace string) error {
			f.add("from-namespace", func(src *api.Source) { src.Ref.Namespace = namespace })
			return nil
		})
	flags.BoolFunc("optional", "pods start without the source, or without keys of its items", func(text string) error {
		isOptional, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("use true or false")
		}
		f.add("optional", func(src *api.Source) { src.Optional = isOptional })
		return nil
	})
}

// addFirstFlags adds the flags under which this command was first proposed: -t configmap
// --configmapname NAME.
func (f *sourceFlags) addFirstFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVarP(&f.kind, "type", "t", "", "configmap or secret")
	_ = flags.MarkHidden("type") // The flag exists.
	for kind, names := range map[api.Kind][]string{
		api.ConfigMap: {"configmap-name", "configmapname"}, api.Secret: {"secret-name", "secretname"},
	} {
		for _, name := range names {
			flags.Func(name, "as --"+kind.Resource(), f.source(kind))
			_ = flags.MarkHidden(name)
		}
	}
}

func (f *sourceFlags) source(kind api.Kind) func(string) error {
	return func(name string) error {
		f.sources = append(f.sources, api.Source{Ref: api.Ref{Kind: kind, Name: name}})
		return nil
	}
}

func (f *sourceFlags) add(flag string, set func(*api.Source)) {
	if len(f.sources) == 0 {
		f.early = append(f.early, detail{flag, set})
		return
	}
	set(&f.sources[len(f.sources)-1])
}

func (f *sourceFlags) complete() ([]api.Source, error) {
	for _, src := range f.sources {
		if f.kind != "" && f.kind != src.Ref.Kind.Resource() {
			return nil, fmt.Errorf("-t %s does not go with --%s %s: leave -t out", f.kind, src.Ref.Kind.Resource(), src.Ref.Name)
		}
	}
	if len(f.early) == 0 {
		return f.sources, nil
	}
	if len(f.sources) != 1 {
		return nil, fmt.Errorf("--%s belongs to the source before it: use --configmap or --secret first", f.early[0].flag)
	}
	for _, d := range f.early {
		d.set(&f.sources[0])
	}
	f.early = nil
	return f.sources, nil
}
