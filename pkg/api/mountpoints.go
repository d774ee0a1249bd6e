package api

import (
	"path"
	"slices"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Examples of what mountPoints is made of, for messages.
const (
	exampleMountPoints = "[custom, conf.d/extra]"
	exampleMountPoint  = "{path: web.conf, ifAbsent: true}"
)

// maxMountPoints is how many a volume may have. Each is a directory that every update looks at.
const maxMountPoints = 64

// mountPoint is an entry of the list.
type mountPoint struct {
	path     string
	ifAbsent bool
}

// mountPoints reads the places that the driver keeps free of files, and those that it keeps free if
// the volume begins without a file there. Both are sorted.
func (p *parser) mountPoints() (always, ifAbsent []string) {
	text, ok := p.attributes[KeyMountPoints]
	if !ok {
		return nil, nil
	}
	at := field.NewPath(KeyMountPoints)
	value, ok := p.yaml(at, text)
	if !ok || value == nil {
		return nil, nil
	}
	first := map[string]*field.Path{}
	for i, element := range p.counted(at, p.list(at, value, exampleMountPoints), new(int), maxMountPoints) {
		point, at := p.mountPoint(at.Index(i), element)
		switch {
		case point.path == "": // A mistake.
			continue
		case first[point.path] != nil:
			p.duplicate(at, point.path, first[point.path].String()+" means the same place, keep one")
		case point.ifAbsent:
			ifAbsent = append(ifAbsent, point.path)
		default:
			always = append(always, point.path)
		}
		first[point.path] = at
	}
	slices.Sort(always)
	slices.Sort(ifAbsent)
	return always, ifAbsent
}

// mountPoint reads an entry, and returns also where its path is written. Without a path there was a
// mistake.
func (p *parser) mountPoint(at *field.Path, value any) (mountPoint, *field.Path) {
	if _, isObject := value.(yaml.MapSlice); !isObject {
		return mountPoint{path: p.place(at, value)}, at
	}
	var point mountPoint
	p.object(at, value, schema{
		example: exampleMountPoint,
		fields: []property{
			{
				name: "path", required: "write where in the volume containers mount something",
				read: func(at *field.Path, v any) { point.path = p.place(at, v) },
			},
			{name: "ifAbsent", read: func(at *field.Path, v any) { point.ifAbsent = p.boolean(at, v) }},
		},
		elsewhere: nowhere,
	})
	return point, at.Child("path")
}

// place returns the cleaned path of a mount point, or "" after a mistake.
func (p *parser) place(at *field.Path, value any) string {
	raw, ok := p.text(at, value)
	switch {
	case !ok:
		return ""
	case raw == "":
		p.required(at, "must not be empty, write where in the volume containers mount something")
		return ""
	}
	clean := path.Clean(raw)
	problem := pathProblem(raw, clean)
	if clean == "." {
		problem = "must name a place in the volume, and it means the volume itself"
	}
	if problem != "" {
		p.invalid(at, raw, problem)
		return ""
	}
	return clean
}
