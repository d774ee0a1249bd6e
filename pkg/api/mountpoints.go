package api

import (
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// exampleMountPoints is a list as it should be, for messages.
const exampleMountPoints = "[custom, conf.d/extra]"

// maxMountPoints is how many a volume may have. Each is a directory that every update looks at.
const maxMountPoints = 64

// mountPoints reads the places that the driver keeps free of files, sorted.
func (p *parser) mountPoints() []string {
	text, ok := p.attributes[KeyMountPoints]
	if !ok {
		return nil
	}
	at := field.NewPath(KeyMountPoints)
	value, ok := p.yaml(at, text)
	if !ok || value == nil {
		return nil
	}
	var points []string
	first := map[string]*field.Path{}
	for i, element := range p.counted(at, p.list(at, value, exampleMountPoints), new(int), maxMountPoints) {
		at := at.Index(i)
		point, ok := p.mountPoint(at, element)
		switch {
		case !ok:
		case first[point] != nil:
			p.duplicate(at, point, first[point].String()+" means the same place, keep one")
		default:
			first[point] = at
			points = append(points, point)
		}
	}
	slices.Sort(points)
	return points
}

// mountPoint returns one cleaned path, and false after a mistake.
func (p *parser) mountPoint(at *field.Path, value any) (clean string, ok bool) {
	raw, ok := p.text(at, value)
	switch {
	case !ok:
		return "", false
	case raw == "":
		p.required(at, "must not be empty, write where in the volume containers mount something")
		return "", false
	}
	clean = path.Clean(raw)
	problem := pathProblem(raw, clean)
	if clean == "." {
		problem = "must name a place in the volume, and it means the volume itself"
	}
	if problem != "" {
		p.invalid(at, raw, problem)
		return "", false
	}
	return clean, true
}
