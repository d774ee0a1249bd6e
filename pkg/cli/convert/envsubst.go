package convert

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// envsubst puts environment variables into a text.
const envsubst = "envsubst"

// beside are the other words with which a command of a script may begin that only runs envsubst.
func beside() []string {
	return []string{"cat", "cd", "chmod", "chown", "cp", "do", "done", "echo", "exec", "for", "mkdir", "set", "sh"}
}

// commandEnd is between the commands of a script.
var commandEnd = regexp.MustCompile(`\n|;|&&|\|\|?`)

// remarkOnEnvsubst prints what to write in place of init containers that only run envsubst.
func (o *command) remarkOnEnvsubst(file string, document manifest.Document) {
	if o.to != toLiveconfig || len(o.names) > 0 {
		return
	}
	for _, spec := range document.PodSpecs() {
		o.remarkOnRendering(file, document, spec)
	}
}

func (o *command) remarkOnRendering(file string, document manifest.Document, spec manifest.PodSpec) {
	var pod corev1.PodSpec
	if manifest.Convert(spec.Data, &pod) != nil {
		return // check prints what is wrong with it.
	}
	for i, c := range pod.InitContainers {
		if !onlyRunsEnvsubst(c) {
			continue
		}
		at := spec.Path.Field("initContainers").Index(i)
		o.Remark("%s:%d: %s: note: init container %s only runs envsubst: the driver does that, and again after each change. "+
			"In place of the container and its volume, write a volume with these volumeAttributes (see docs/values.md):",
			file, document.Line(at), spec.Object, c.Name)
		for _, line := range attributesFor(c, pod.Volumes, o.driver) {
			o.Remark("  %s", line)
		}
	}
}

// onlyRunsEnvsubst reports whether a container runs envsubst, and beside it nothing but what brings
// texts to it and files to their places.
func onlyRunsEnvsubst(c corev1.Container) bool {
	words := slices.Concat(c.Command, c.Args)
	if len(words) == 0 {
		return false
	}
	if path.Base(words[0]) == envsubst {
		return true
	}
	script := words[len(words)-1]
	found := false
	for _, command := range commandEnd.Split(script, -1) {
		fields := strings.Fields(command)
		// Words that open a block come before a command.
		for len(fields) > 1 && (fields[0] == "do" || fields[0] == "exec") {
			fields = fields[1:]
		}
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case path.Base(fields[0]) == envsubst:
			found = true
		case !slices.Contains(beside(), fields[0]):
			return false
		}
	}
	return found
}

// attributesFor returns the attributes of a volume in place of a container that runs envsubst.
func attributesFor(c corev1.Container, volumes []corev1.Volume, driver string) []string {
	lines := []string{api.KeySources + ": |"}
	for _, name := range templatesOf(c, volumes, driver) {
		lines = append(lines, fmt.Sprintf(`  - configMap: {name: %s, expand: {syntax: "${}"}}`, scalar(name)))
	}
	values, others := valuesFor(c)
	if len(values) > 0 {
		lines = append(append(lines, api.KeyValues+": |"), values...)
	}
	for _, name := range others {
		lines = append(lines, fmt.Sprintf("# %s has no object: write it into the text, or ${%s:-VALUE} there", name, name))
	}
	return append(lines, "# only ${NAME} is replaced, not $NAME, and a name without a value is a mistake")
}

// placeholder stands for the name of an object that is not known.
const placeholder = "NAME"

// templatesOf returns the ConfigMaps that a container mounts.
func templatesOf(c corev1.Container, volumes []corev1.Volume, driver string) []string {
	var names []string
	for _, mount := range c.VolumeMounts {
		for _, v := range volumes {
			if name := configMapOf(v, driver); v.Name == mount.Name && name != "" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return []string{placeholder}
	}
	return names
}

func configMapOf(v corev1.Volume, driver string) string {
	switch {
	case v.ConfigMap != nil:
		return v.ConfigMap.Name
	case v.CSI != nil && v.CSI.Driver == driver:
		return v.CSI.VolumeAttributes[api.KeyConfigMap]
	}
	return ""
}

// valuesFor returns the entries of values that give what a container has in its environment, and
// the names of the variables that values cannot give.
func valuesFor(c corev1.Container) (entries, others []string) {
	for _, from := range c.EnvFrom {
		if r := from.SecretRef; r != nil {
			entries = append(entries, wholeObject(api.KeySecret, r.Name, from.Prefix, r.Optional))
		}
		if r := from.ConfigMapRef; r != nil {
			entries = append(entries, wholeObject(api.KeyConfigMap, r.Name, from.Prefix, r.Optional))
		}
	}
	for _, env := range c.Env {
		entry := ""
		if env.ValueFrom != nil {
			entry = valueFor(env.Name, *env.ValueFrom)
		}
		if entry == "" {
			others = append(others, env.Name)
			continue
		}
		entries = append(entries, entry)
	}
	return entries, others
}

func wholeObject(kind, name, prefix string, optional *bool) string {
	if prefix != "" {
		prefix = ", prefix: " + scalar(prefix)
	}
	return fmt.Sprintf("  - %s: {name: %s%s%s}", kind, scalar(name), prefix, optionalOf(optional))
}

func optionalOf(optional *bool) string {
	if optional == nil || !*optional {
		return ""
	}
	return ", optional: true"
}

func valueFor(name string, from corev1.EnvVarSource) string {
	key := func(kind, object, key string, optional *bool) string {
		return fmt.Sprintf("  - %s: {name: %s, items: [{key: %s, path: %s}]%s}",
			kind, scalar(object), scalar(key), scalar(name), optionalOf(optional))
	}
	switch {
	case from.SecretKeyRef != nil:
		return key(api.KeySecret, from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
	case from.ConfigMapKeyRef != nil:
		return key(api.KeyConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional)
	case from.FieldRef != nil && factsByField()[from.FieldRef.FieldPath] != "":
		return fmt.Sprintf("  - pod: {%s: %s}", factsByField()[from.FieldRef.FieldPath], scalar(name))
	}
	return ""
}

var (
	// plain are texts that need no quotes in YAML, but for those of notText.
	plain   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	notText = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null)$`)
)

// scalar returns a text as YAML has it, in quotes where it might be more than a text.
func scalar(text string) string {
	if plain.MatchString(text) && !notText.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// factsByField are the facts about a pod by the fields that the environment can have.
func factsByField() map[string]string {
	return map[string]string{
		"metadata.name": api.FactName, "metadata.namespace": api.FactNamespace, "metadata.uid": api.FactUID,
		"spec.serviceAccountName": api.FactServiceAccount, "spec.nodeName": api.FactNodeName,
	}
}
