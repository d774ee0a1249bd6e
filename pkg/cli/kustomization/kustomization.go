// Package kustomization knows how kustomize changes names of objects.
//
// It does not know kustomize's code, files or the API server.
package kustomization

import (
	"regexp"
	"slices"
	"strings"
)

// suffix is how kustomize writes the hash of the content of a generated object.
const suffix = `-[bcdfghkmt2456789]{10}$`

// Base returns the name of an object without the hash of its content. It reports false for a name
// without a hash.
func Base(name string) (string, bool) {
	at := regexp.MustCompile(suffix).FindStringIndex(name)
	if at == nil {
		return name, false
	}
	return name[:at[0]], true
}

// IsRenamed reports whether kustomize may have made the second name out of the first. The name of
// an object beside them shows a prefix or suffix that both have.
func IsRenamed(name, to, beside string) bool {
	base, isHashed := Base(to)
	if base == name {
		return isHashed
	}
	prefix, hasPrefix := strings.CutSuffix(base, name)
	if hasPrefix && (isHashed || strings.HasPrefix(beside, prefix)) {
		return true
	}
	after, hasSuffix := strings.CutPrefix(base, name)
	return hasSuffix && (isHashed || strings.HasSuffix(beside, after))
}

// Renames returns the fields of a kustomization that change names, in order. Of another object it
// returns nothing.
func Renames(object map[string]any) []string {
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	isOurs := strings.HasPrefix(version, "kustomize.config.k8s.io/")
	if kind != "" && !isOurs || version != "" && !isOurs {
		return nil
	}
	var found []string
	for _, field := range []string{"configMapGenerator", "namePrefix", "nameSuffix", "secretGenerator"} {
		if value := object[field]; value != nil && value != "" {
			found = append(found, field)
		}
	}
	return slices.Clip(found)
}
