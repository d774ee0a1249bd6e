package edit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// written changes manifests in the form in which people have written them.
type written struct {
	*Edit

	change func(*resource.Info, selection.Workload) error
	labels labels.Selector
	// found and changed count objects.
	found, changed int
}

// runAsWritten changes the objects of files, and prints the files with their comments, as YAML,
// KYAML or JSON. Other objects stay as they are. After an error it prints nothing.
func (e *Edit) runAsWritten(args []string, change func(*resource.Info, selection.Workload) error) error {
	files, err := e.Manifests(e.Session, args)
	if err != nil {
		return err
	}
	w := &written{Edit: e, change: change}
	if w.labels, err = labels.Parse(e.Selector); err != nil {
		return fmt.Errorf("--selector %q: %w", e.Selector, err)
	}
	var texts []string
	var errs []error
	for _, file := range files {
		text, err := w.file(file)
		texts, errs = append(texts, text), append(errs, err)
	}
	switch {
	case errors.Join(errs...) != nil:
		return errors.Join(errs...)
	case w.found == 0:
		return e.Nothing()
	case w.changed == 0:
		return errNothingChanged
	}
	_, err = io.WriteString(e.Out, manifest.Join(texts))
	return err
}

func (w *written) file(file manifest.File) (string, error) {
	var b strings.Builder
	var errs []error
	for _, part := range file.Parts() {
		if part.IsSeparator {
			b.WriteString(part.Text)
			continue
		}
		document, err := manifest.Parse(part)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file.Name, err)
		}
		changes, err := w.changes(document)
		errs = append(errs, err)
		text, dropped, err := document.Merge(changes, func(d manifest.Document) bool { return isMeant(d, changes) })
		if err != nil {
			return "", fmt.Errorf("%s: %w", file.Name, err)
		}
		if len(dropped) > 0 {
			w.Remark("%s:%d: %d comments were lost: %s", file.Name, part.Line, len(dropped), strings.Join(dropped, " "))
		}
		b.WriteString(text)
	}
	return b.String(), errors.Join(errs...)
}

// changes changes the objects of a document that are selected.
func (w *written) changes(document manifest.Document) (changes []manifest.Change, err error) {
	var errs []error
	for path, object := range document.Objects() {
		info, err := w.typed(object)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if info == nil {
			continue
		}
		w.found++
		c := manifest.Change{Object: path}
		if c.Before, err = plain(info); err == nil {
			err = w.workload(info)
		}
		if _, isNotApplicable := errors.AsType[*NotApplicableError](err); isNotApplicable {
			w.leave(info, err)
			continue
		}
		if err == nil {
			c.After, err = plain(info)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", selection.Subject(info), err))
			continue
		}
		w.changed++
		changes = append(changes, c)
	}
	return changes, errors.Join(errs...)
}

// typed returns an object, or nil if labels do not select it.
func (w *written) typed(object map[string]any) (*resource.Info, error) {
	given := &unstructured.Unstructured{Object: object}
	if !w.labels.Matches(labels.Set(given.GetLabels())) {
		return nil, nil
	}
	info := &resource.Info{
		Name: given.GetName(), Namespace: cmp.Or(given.GetNamespace(), session.NamespaceOr(w.Session, "")),
		Object: given.DeepCopy(),
	}
	return info, selection.AsTyped(info)
}

// workload changes an object that makes pods.
func (w *written) workload(info *resource.Info) error {
	is, ok := selection.AsWorkload(info.Object)
	if !ok {
		return notWorkload(info.Object)
	}
	return apply(info, is, w.change)
}

// plain returns an object as JSON has it.
func plain(info *resource.Info) (value any, err error) {
	err = manifest.Convert(info.Object, &value)
	return value, err
}

// isMeant reports whether objects of a document mean to the API server what they should.
func isMeant(document manifest.Document, changes []manifest.Change) bool {
	for _, c := range changes {
		object, _ := document.At(c.Object).(map[string]any)
		info := &resource.Info{Object: &unstructured.Unstructured{Object: object}}
		if selection.AsTyped(info) != nil {
			return false
		}
		if is, err := plain(info); err != nil || !reflect.DeepEqual(is, c.After) {
			return false
		}
	}
	return true
}
