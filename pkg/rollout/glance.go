package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// maxMentions is how many copies a revision can use that its config does not have. Only people
// write such names.
const maxMentions = 64

// maxDoubt is how many bytes of attributes are stored of a revision to read them later. Of one that
// has more, it is not known whether it is plain.
const maxDoubt = 16 << 10

// look finds out what can be known of the template of a revision without reading attributes: caches
// do this for every revision of the cluster, one after the other, and anybody may write them.
func (r *cachedRevision) look(in template.Place) {
	t := r.is.Template
	config := r.readConfig(t.Annotations[trigger.ConfigAnnotation])
	sources := map[string]bool{}
	for o, name := range config {
		if name != "" {
			sources[o.Name] = true
		}
	}
	isCopyName := func(name string) bool {
		_, _, ok := copies.SplitName(name)
		return ok
	}
	uses, mentioned := template.Glance(t, in, func(name string) bool { return sources[name] || isCopyName(name) })
	r.Plain = isPlain(config, uses)
	for _, use := range uses {
		mentioned[use.Object] = true
	}
	var names []api.Ref
	isDoubtful := false
	for o := range mentioned {
		isDoubtful = isDoubtful || config[o] != ""
		if isCopyName(o.Name) {
			names = append(names, o)
		}
	}
	slices.SortFunc(names, trigger.Compare)
	r.Uses = names[:min(len(names), maxMentions)]
	for o, name := range r.Copies { // Also those that the template has stopped to name.
		r.Uses = append(r.Uses, o.Named(name))
	}
	slices.SortFunc(r.Uses, trigger.Compare)
	r.Uses = slices.Clone(slices.Compact(r.Uses)) // The array has room for all names.
	if size := template.Size(t, in); isDoubtful && !r.Plain && size <= maxDoubt {
		r.Doubt = &doubt{config: config, template: template.OnlyVolumes(t, in), in: in, size: size}
	}
}

// readConfig stores the config of a template, and returns it.
func (r *cachedRevision) readConfig(text string) trigger.Config {
	config, err := trigger.ParseConfig(text)
	if err == nil {
		r.Config, r.Copies = text, config.Copies()
		return config
	}
	if r.Config = text; len(text) > sha256.Size {
		sum := sha256.Sum256([]byte(text))
		r.Config = "unreadable: " + hex.EncodeToString(sum[:])
	}
	return nil
}

// doubt is about a revision that names a source of which its config has a copy, if a word of its
// attributes is a name.
type doubt struct {
	config   trigger.Config
	template *corev1.PodTemplateSpec
	in       template.Place
	size     int

	once   sync.Once // For plain.
	plain  bool
	isRead atomic.Bool
}

// read reports whether the revision is plain. Only the first call takes time.
func (d *doubt) read() bool {
	d.once.Do(func() {
		uses, _ := template.Uses(d.template, d.in) // Anything that cannot be read uses nothing.
		d.plain = isPlain(d.config, uses)
		d.isRead.Store(true)
	})
	return d.plain
}
