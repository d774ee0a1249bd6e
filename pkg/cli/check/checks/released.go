package checks

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// released checks a ConfigMap or Secret with the release annotation, or those of a list: the
// annotation, and the content by its rules.
func (c *Checker) released(file string, document manifest.Document, at manifest.Path, data any) {
	object, ok := data.(map[string]any)
	if !ok {
		return
	}
	if elements, ok := objects.Elements(object); ok {
		for i, element := range elements {
			c.released(file, document, at.Field("items").Index(i), element)
		}
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, ok := annotations[release.Annotation].(string)
	if !ok || !objects.IsServed(object) {
		return
	}
	content, _ := objects.Content(object, c.Namespace)
	r := releasedObject{Checker: c, file: file, document: document, at: at, content: content}
	c.checked.Released++
	s, mistakes := settings.Parse(text)
	annotation := at.Field("metadata", "annotations", release.Annotation)
	for _, m := range mistakes {
		r.add(document.LineOfText(annotation, m.Line), annotation, m.String())
	}
	problems, err := c.Rules(s.Rules, validation.Content{Data: content.Data, IsSecret: content.Ref.Kind == api.Secret, Now: time.Now()})
	if err != nil {
		r.add(document.Line(annotation), annotation, err.Error())
	}
	for _, p := range problems {
		value := r.pathOf(p.Key)
		r.add(document.LineOfText(value, p.Line), value, p.String())
	}
}

// releasedObject is the check of one object.
type releasedObject struct {
	*Checker

	file     string
	document manifest.Document
	at       manifest.Path
	content  api.Content
}

// pathOf returns where a key of the object is written.
func (r *releasedObject) pathOf(key string) manifest.Path {
	for _, field := range []string{"data", "stringData", "binaryData"} {
		if path := r.at.Field(field, key); r.document.Written(path) != "" {
			return path
		}
	}
	return r.at.Field("data")
}

func (r *releasedObject) add(line int, at manifest.Path, text string) {
	r.findings = append(r.findings, Finding{
		File: r.file, Line: line, Object: release.NameOf(r.content.Ref), Field: at.String(), Message: text, Severity: Mistake,
	})
}
