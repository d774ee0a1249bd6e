package set

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// sourceFlags collects sources in the order of the command line. Flags about a source come after
// it; with one source, they may also come before.
type sourceFlags struct {
	sources []api.Source
	// early are the flags before the first source.
	early []detail
	// kind is the one kind that sources may have, by -t.
	kind string
}

// detail is a flag about a source.
type detail struct {
	flag string
	set  func(*api.Source)
}

func (f *sourceFlags) addFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.Func("configmap", "`name` of a ConfigMap to project; may be repeated, as --secret may", f.source(api.ConfigMap))
	flags.Func("secret", "`name` of a Secret to project", f.source(api.Secret))
	flags.Func("item", "`key=path[:mode]` of the source: only keys that items name are there; may be repeated", func(text string) error {
		item, err := ParseItem(text)
		f.add("item", func(src *api.Source) { src.Items = append(src.Items, item) })
		return err
	})
	flags.Func("from-namespace", "`namespace` of the source, whose owner has to consent: see grant", func(namespace string) error {
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

// add applies a detail to the last source.
func (f *sourceFlags) add(flag string, set func(*api.Source)) {
	if len(f.sources) == 0 {
		f.early = append(f.early, detail{flag, set})
		return
	}
	set(&f.sources[len(f.sources)-1])
}

// complete returns the sources.
func (f *sourceFlags) complete() ([]api.Source, error) {
	for _, src := range f.sources {
		if f.kind != "" && f.kind != src.Ref.Kind.Resource() {
			return nil, usage.Errorf("-t %s does not go with --%s %s: leave -t out", f.kind, src.Ref.Kind.Resource(), src.Ref.Name)
		}
	}
	if len(f.early) == 0 {
		return f.sources, nil
	}
	if len(f.sources) != 1 {
		return nil, usage.Errorf("--%s belongs to the source before it: use --configmap or --secret first", f.early[0].flag)
	}
	for _, d := range f.early {
		d.set(&f.sources[0])
	}
	f.early = nil
	return f.sources, nil
}
