package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// Mistake is what the API server, the kubelet or the driver refuses.
	Mistake Severity = "mistake"
	// Warning is what all of them take, and nobody may have meant.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Object   string   `json:"object,omitempty"`
	Field    string   `json:"field,omitempty"`
	Message  string   `json:"message"`
	Severity Severity `json:"severity"`
}

// String returns the finding as a line.
func (f Finding) String() string {
	parts := []string{fmt.Sprintf("%s:%d", f.File, f.Line), f.Object, f.Field, "", f.Message}
	if f.Severity == Warning {
		parts[3] = string(Warning)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Checker checks manifests.
type Checker struct {
	// Driver is the name of the CSI driver whose volumes are checked.
	Driver string
	// Namespace is that of objects that name none.
	Namespace string
	// Rules checks the content of a released object.
	Rules func([]settings.Rule, validation.Content) ([]validation.Problem, error)

	// Findings are all that were found so far, by files and lines.
	Findings []Finding
	Checked  Checked
	// InTree counts volumes of Kubernetes' own types that show ConfigMaps or Secrets.
	InTree int

	// sources are where volumes name objects, and given the objects of the manifests.
	sources []source
	given   map[api.Ref]givenObject
	// expanded are the volumes whose files get values.
	expanded []expanded
}

// Checked counts what was checked.
type Checked struct {
	Volumes int
	// Released are objects with the release annotation.
	Released int
}

// File checks all documents of a file.
func (c *Checker) File(file manifest.File) {
	before := len(c.Findings)
	defer func() {
		slices.SortStableFunc(c.Findings[before:], func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	}()
	for document, err := range file.Documents() {
		if syntax, isUnread := errors.AsType[*manifest.SyntaxError](err); isUnread {
			c.Findings = append(c.Findings, Finding{
				File: file.Name, Line: syntax.Line, Message: syntax.Err.Error(), Severity: Mistake,
			})
			continue
		}
		for _, spec := range document.PodSpecsAndPatches() {
			(&podSpec{review: review{c, file.Name, document, spec.Object}, spec: spec}).check()
		}
		for at, object := range objects.All(document.Data) {
			c.released(file.Name, document, at, object)
		}
	}
}

// review is of one object of a document.
type review struct {
	*Checker

	file     string
	document manifest.Document
	object   string
}

// add adds a finding at the line of a path. The field is that path, and more where a text holds
// what is wrong.
func (r *review) add(severity Severity, line int, field, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{
		File: r.file, Line: line, Object: r.object, Field: field, Message: fmt.Sprintf(format, args...), Severity: severity,
	})
}

func (r *review) mistake(at manifest.Path, format string, args ...any) {
	r.add(Mistake, r.document.Line(at), at.String(), format, args...)
}

func (r *review) warning(at manifest.Path, format string, args ...any) {
	r.add(Warning, r.document.Line(at), at.String(), format, args...)
}

type podSpec struct {
	review

	spec manifest.PodSpec
	// names are where the volumes are, and ours the update policies of those that are ours.
	names map[string]manifest.Path
	ours  map[string]string
}

func (r *podSpec) check() {
	r.names, r.ours = map[string]manifest.Path{}, map[string]string{}
	for i, volume := range r.spec.Volumes() {
		at := r.spec.Path.Field("volumes").Index(i)
		name, _ := volume["name"].(string)
		if first, found := r.names[name]; found {
			r.mistake(at.Field("name"), "%q is the name of %s as well, change one", name, first)
		}
		r.names[name] = at
		csi, isCSI := volume["csi"].(map[string]any)
		if !isCSI {
			if isInTree(volume) {
				r.InTree++
			}
			continue
		}
		driver, _ := csi["driver"].(string)
		switch {
		case driver == r.Driver:
			r.Checked.Volumes++
			r.ours[name] = r.volume(at, volume, csi)
		case strings.Contains(driver, "liveconfig"):
			r.warning(at.Field("csi", "driver"),
				"%q is not checked: use --driver-name if that is the name of liveconfig's driver, which here is %s",
				driver, r.Driver)
		}
	}
	for _, claim := range r.spec.Claims {
		r.names[claim] = r.spec.Path
	}
	if len(r.ours) > 0 {
		r.mounts()
	}
	r.stopSignals()
}

// isInTree reports whether a volume of Kubernetes' own types shows a ConfigMap or Secret.
func isInTree(volume map[string]any) bool {
	projected, _ := volume["projected"].(map[string]any)
	for _, source := range append(manifest.Objects(projected["sources"]), volume) {
		if source["configMap"] != nil || source["secret"] != nil {
			return true
		}
	}
	return false
}

// volume checks a volume of ours and returns its update policy.
func (r *podSpec) volume(at manifest.Path, volume, csi map[string]any) string {
	for _, other := range slices.Sorted(maps.Keys(volume)) {
		if other != "name" && other != "csi" {
			r.mistake(at.Field(other), "a volume has one source, and csi is there: keep one")
		}
	}
	at = at.Field("csi")
	known := []string{"driver", "fsType", "nodePublishSecretRef", "readOnly", "volumeAttributes"}
	for _, name := range slices.Sorted(maps.Keys(csi)) {
		if !slices.Contains(known, name) {
			r.mistake(at.Field(name), "unknown field, known are %s", strings.Join(known, ", "))
		}
	}
	if csi["readOnly"] != true {
		r.mistake(at.Field("readOnly"), "the volume must be read-only: write readOnly: true")
	}
	return r.attributes(at.Field("volumeAttributes"), csi["volumeAttributes"])
}

// attributes checks what the driver parses and returns the update policy.
func (r *podSpec) attributes(at manifest.Path, value any) string {
	given, ok := value.(map[string]any)
	if !ok && value != nil {
		r.mistake(at, "must be an object such as {configMap: app}")
		return ""
	}
	for _, field := range r.document.Twice(at) {
		r.warning(field, "it is written more than once, and the last counts: keep one")
	}
	texts := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		text, isText := given[key].(string)
		if !isText {
			var hint string
			text, hint = meant(key, given[key], r.document.Written(at.Field(key)))
			r.mistake(at.Field(key), "must be a string: %s", hint)
		}
		if isText || text != "" { // Also where the quotes are missing: other mistakes are found all the same.
			texts[key] = text
		}
	}
	spec, err := api.Parse(texts, cmp.Or(r.spec.Namespace, r.Namespace))
	if err == nil {
		r.noteSources(at, texts, spec)
	}
	if mistakes, ok := errors.AsType[*api.AttributesError](err); ok {
		r.parsed(at, given, mistakes)
	}
	return texts[api.KeyUpdatePolicy]
}

// meant returns the string that a number or a boolean was meant to be, which is what is written: in
// YAML y is true, and 0440 is 288. Only optional has values that are booleans. The string is empty
// for other values. The hint is how to write it.
func meant(key string, value any, written string) (text, hint string) {
	switch value.(type) {
	case nil:
		return "", "write a text, or leave it out"
	case map[string]any, []any:
		return "", fmt.Sprintf("write %s: | and the list or object below it, deeper", key)
	}
	text = written
	if key == api.KeyOptional || written == "" {
		text = fmt.Sprint(value)
	}
	return text, fmt.Sprintf("write %s: %q", key, text)
}

func (r *review) parsed(at manifest.Path, given map[string]any, mistakes *api.AttributesError) {
	for _, m := range mistakes.Mistakes {
		if m.Field == api.KeyConfigMap && namesSourceOtherwise(given) {
			continue
		}
		line := r.document.Line(at)
		if attribute, inside, found := attributeIn(m.Field, given); found {
			line = r.document.LineInText(at.Field(attribute), inside)
		}
		r.add(Mistake, line, at.String()+"."+m.Field, "%s", m.ErrorBody())
	}
	if mistakes.More > 0 {
		r.mistake(at, "and %d more mistakes", mistakes.More)
	}
}

// attributeIn splits the field of a mistake into the attribute and where in its text the mistake
// is. A name with odd signs is in quotes there.
func attributeIn(field string, given map[string]any) (attribute string, inside manifest.Path, found bool) {
	if quoted, err := strconv.QuotedPrefix(field); err == nil {
		name, err := strconv.Unquote(quoted)
		return name, nil, err == nil
	}
	if _, isWhole := given[field]; isWhole {
		return field, nil, true
	}
	path := manifest.ParsePath(field)
	if len(path) == 0 {
		return "", nil, false
	}
	return path[0].Field, path[1:], true
}

// namesSourceOtherwise reports whether a source is named by something else than a text. The parser
// was not given that, and misses a source.
func namesSourceOtherwise(given map[string]any) bool {
	_, isText := given[api.KeyConfigMap].(string)
	isGiven := func(key string) bool { _, found := given[key]; return found }
	return !isText && slices.ContainsFunc([]string{api.KeyConfigMap, api.KeySecret, api.KeySources}, isGiven)
}

// mounts checks what containers make of the volumes.
func (r *podSpec) mounts() {
	unmounted := maps.Clone(r.ours)
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, container := range manifest.Objects(r.spec.Data[list]) {
			r.container(r.spec.Path.Field(list).Index(i).Field("volumeMounts"), manifest.Objects(container["volumeMounts"]),
				unmounted)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unmounted)) {
		if !r.spec.IsPatch() {
			r.warning(r.names[name], "no container mounts volume %q", name)
		}
	}
}

func (r *podSpec) container(at manifest.Path, mounts []map[string]any, unmounted map[string]string) {
	paths := map[string]manifest.Path{}
	for i, mount := range mounts {
		at := at.Index(i)
		name, _ := mount["name"].(string)
		if r.names[name] == nil {
			r.mistake(at.Field("name"), "there is no volume %q, there are: %s", name,
				strings.Join(slices.Sorted(maps.Keys(r.names)), ", "))
		}
		mountPath, _ := mount["mountPath"].(string)
		if first, found := paths[mountPath]; found {
			r.mistake(at.Field("mountPath"), "%s is that of %s as well, change one", mountPath, first)
		}
		paths[mountPath] = at
		if policy, isOurs := r.ours[name]; isOurs {
			r.ofOurs(at, mount, mounts, policy)
		}
		delete(unmounted, name)
	}
}

// ofOurs warns of a mount that updates do not reach, and of one inside it: a volume of ours is
// read-only, so nobody can make a directory there.
func (r *podSpec) ofOurs(at manifest.Path, mount map[string]any, mounts []map[string]any, policy string) {
	for _, field := range []string{"subPath", "subPathExpr"} {
		if text, _ := mount[field].(string); text != "" && policy != string(api.UpdateInPlace) &&
			policy != string(api.UpdateNever) {
			r.warning(at.Field(field), "updates do not reach a mount of a part: they do with updatePolicy: InPlace, "+
				"where a reader may see a half-written file")
		}
	}
	outer, _ := mount["mountPath"].(string)
	for _, other := range mounts {
		inner, _ := other["mountPath"].(string)
		if outer != "" && strings.HasPrefix(path.Clean(inner), strings.TrimSuffix(path.Clean(outer), "/")+"/") {
			r.warning(at.Field("mountPath"),
				"%s is mounted inside %s, which is read-only: the pod starts only if the volume has that path", inner, outer)
		}
	}
}
