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
	parts := []string{fmt.Sprintf("%s:%d", f.File, f.Line)}
	for _, part := range []string{f.Object, f.Field} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if f.Severity == Warning {
		parts = append(parts, string(Warning))
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// Checker checks manifests.
type Checker struct {
	// Driver is the name of the CSI driver whose volumes are checked.
	Driver string
	// Namespace is that of objects that name none.
	Namespace string
	// Rules checks the content of a released object.
	Rules func([]settings.Rule, validation.Content) ([]validation.Problem, error)

	findings []Finding
	checked  Checked
}

// Checked counts what was checked.
type Checked struct {
	Volumes int
	// Released are objects with the release annotation.
	Released int
}

// Findings returns all that was found so far, by files and lines, and how much was checked.
func (c *Checker) Findings() ([]Finding, Checked) { return c.findings, c.checked }

// File checks all documents of a file.
func (c *Checker) File(file manifest.File) {
	before := len(c.findings)
	defer func() {
		slices.SortStableFunc(c.findings[before:], func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	}()
	for _, part := range file.Parts() {
		if part.IsSeparator {
			continue
		}
		document, err := manifest.Parse(part)
		if err != nil {
			c.unreadable(file.Name, part.Line, err)
			continue
		}
		for _, spec := range document.PodSpecsAndPatches() {
			(&review{c, file.Name, document, spec}).podSpec()
		}
		c.released(file.Name, document, manifest.Path{}, document.Data)
	}
}

func (c *Checker) unreadable(file string, line int, err error) {
	if syntax, ok := errors.AsType[*manifest.SyntaxError](err); ok {
		line, err = syntax.Line, syntax.Err
	}
	c.findings = append(c.findings, Finding{File: file, Line: line, Message: err.Error(), Severity: Mistake})
}

type review struct {
	*Checker

	file     string
	document manifest.Document
	spec     manifest.PodSpec
}

// add adds a finding at the line of a path. The field is that path, and more where a text holds
// what is wrong.
func (r *review) add(severity Severity, line int, field, format string, args ...any) {
	r.findings = append(r.findings, Finding{
		File: r.file, Line: line, Object: r.spec.Object, Field: field, Message: fmt.Sprintf(format, args...), Severity: severity,
	})
}

func (r *review) mistake(at manifest.Path, format string, args ...any) {
	r.add(Mistake, r.document.Line(at), at.String(), format, args...)
}

func (r *review) warning(at manifest.Path, format string, args ...any) {
	r.add(Warning, r.document.Line(at), at.String(), format, args...)
}

func (r *review) podSpec() {
	names := map[string]manifest.Path{}
	ours := map[string]string{} // Update policies by volumes.
	for i, volume := range r.spec.Volumes() {
		at := r.spec.Path.Field("volumes").Index(i)
		name, _ := volume["name"].(string)
		if first, found := names[name]; found {
			r.mistake(at.Field("name"), "%q is the name of %s as well, change one", name, first)
		}
		names[name] = at
		csi, isCSI := volume["csi"].(map[string]any)
		if !isCSI {
			continue
		}
		driver, _ := csi["driver"].(string)
		switch {
		case driver == r.Driver:
			r.checked.Volumes++
			ours[name] = r.volume(at, volume, csi)
		case strings.Contains(driver, "liveconfig"):
			r.warning(at.Field("csi", "driver"), "%q is not checked: use --driver-name if that is the name of liveconfig's driver, which here is %s",
				driver, r.Driver)
		}
	}
	for _, claim := range r.spec.Claims {
		names[claim] = r.spec.Path
	}
	if len(ours) > 0 {
		r.mounts(names, ours)
	}
}

// volume checks a volume of ours and returns its update policy.
func (r *review) volume(at manifest.Path, volume, csi map[string]any) string {
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
func (r *review) attributes(at manifest.Path, value any) string {
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
			var isScalar bool
			text, isScalar = meant(key, given[key], r.document.Written(at.Field(key)))
			r.mistake(at.Field(key), "must be a string: %s", hint(key, given[key], text))
			if !isScalar {
				continue
			}
		}
		texts[key] = text // Also where the quotes are missing: other mistakes are found all the same.
	}
	_, err := api.Parse(texts, cmp.Or(r.spec.Namespace, r.Namespace))
	if mistakes, ok := errors.AsType[*api.AttributesError](err); ok {
		r.parsed(at, given, mistakes)
	}
	return texts[api.KeyUpdatePolicy]
}

// meant returns the string that a number or a boolean was meant to be, which is what is written: in
// YAML y is true, and 0440 is 288. Only optional has values that are booleans.
func meant(key string, value any, written string) (text string, isScalar bool) {
	switch value.(type) {
	case nil, map[string]any, []any:
		return "", false
	}
	if key == api.KeyOptional || written == "" {
		return fmt.Sprint(value), true
	}
	return written, true
}

func hint(key string, value any, text string) string {
	switch value.(type) {
	case nil:
		return "write a text, or leave it out"
	case map[string]any, []any:
		return fmt.Sprintf("write %s: | and the list or object below it, deeper", key)
	default:
		return fmt.Sprintf("write %s: %q", key, text)
	}
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
	if _, isText := given[api.KeyConfigMap].(string); isText {
		return false
	}
	for _, key := range []string{api.KeyConfigMap, api.KeySecret, api.KeySources} {
		if _, found := given[key]; found {
			return true
		}
	}
	return false
}

// mounts checks what containers make of the volumes: of all names, some are ours, with their update
// policies.
func (r *review) mounts(names map[string]manifest.Path, ours map[string]string) {
	mounted := map[string]bool{}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, container := range manifest.Objects(r.spec.Data[list]) {
			at := r.spec.Path.Field(list).Index(i).Field("volumeMounts")
			r.container(at, manifest.Objects(container["volumeMounts"]), names, ours)
			for _, mount := range manifest.Objects(container["volumeMounts"]) {
				name, _ := mount["name"].(string)
				mounted[name] = true
			}
		}
	}
	if r.spec.IsPatch() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if !mounted[name] {
			r.warning(names[name], "no container mounts volume %q", name)
		}
	}
}

func (r *review) container(at manifest.Path, mounts []map[string]any, names map[string]manifest.Path, ours map[string]string) {
	paths := map[string]manifest.Path{}
	for i, mount := range mounts {
		at := at.Index(i)
		name, _ := mount["name"].(string)
		if names[name] == nil {
			r.mistake(at.Field("name"), "there is no volume %q, there are: %s", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		mountPath, _ := mount["mountPath"].(string)
		if first, found := paths[mountPath]; found {
			r.mistake(at.Field("mountPath"), "%s is that of %s as well, change one", mountPath, first)
		}
		paths[mountPath] = at
		if policy, isOurs := ours[name]; isOurs {
			r.subPath(at, mount, policy)
			r.below(at, mount, mounts)
		}
	}
}

// subPath warns of a mount that updates do not reach.
func (r *review) subPath(at manifest.Path, mount map[string]any, policy string) {
	for _, field := range []string{"subPath", "subPathExpr"} {
		if text, _ := mount[field].(string); text != "" && policy != string(api.UpdateInPlace) && policy != string(api.UpdateNever) {
			r.warning(at.Field(field), "updates do not reach a mount of a part: they do with updatePolicy: InPlace, "+
				"where a reader may see a half-written file")
		}
	}
}

// below warns of a mount inside one of ours, which is read-only: nobody can make a directory for it
// there.
func (r *review) below(at manifest.Path, mount map[string]any, mounts []map[string]any) {
	outer, _ := mount["mountPath"].(string)
	for _, other := range mounts {
		inner, _ := other["mountPath"].(string)
		if outer != "" && strings.HasPrefix(path.Clean(inner), strings.TrimSuffix(path.Clean(outer), "/")+"/") {
			r.warning(at.Field("mountPath"), "%s is mounted inside %s, which is read-only: the pod starts only if the volume has that path", inner, outer)
		}
	}
}
