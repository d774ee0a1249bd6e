package kustomizer

import (
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// named are the paths in a field of a kustomization.
type named struct {
	field string
	paths []string
}

// pathsOf returns all paths of a kustomization whose old fields kustomize has moved to new ones.
func pathsOf(k types.Kustomization) []named {
	return []named{
		{"resources", k.Resources},
		{"components", k.Components},
		{"crds", k.Crds},
		{"configurations", k.Configurations},
		{"openapi", []string{k.OpenAPI["path"]}},
		{"patches", patchPaths(k.Patches)},
		{"patchesJson6902", patchPaths(k.PatchesJson6902)},        //nolint:staticcheck // People have the old field.
		{"patchesStrategicMerge", texts(k.PatchesStrategicMerge)}, //nolint:staticcheck // As above.
		{"replacements", replacementPaths(k.Replacements)},
		{"configMapGenerator", configMapPaths(k.ConfigMapGenerator)},
		{"secretGenerator", secretPaths(k.SecretGenerator)},
	}
}

// programs is how many programs a field of a kustomization names.
type programs struct {
	field string
	count int
}

// programsOf returns the fields whose files name more files, in ways that only kustomize knows.
func programsOf(k types.Kustomization) []programs {
	return []programs{
		{"generators", len(k.Generators)},
		{"transformers", len(k.Transformers)},
		{"validators", len(k.Validators)},
		{"helmCharts", len(k.HelmCharts)},
		{"helmChartInflationGenerator", len(k.HelmChartInflationGenerator)},
	}
}

func patchPaths(patches []types.Patch) []string {
	var paths []string
	for _, p := range patches {
		paths = append(paths, p.Path)
	}
	return paths
}

func replacementPaths(replacements []types.ReplacementField) []string {
	var paths []string
	for _, r := range replacements {
		paths = append(paths, r.Path)
	}
	return paths
}

func configMapPaths(generators []types.ConfigMapArgs) []string {
	var paths []string
	for _, g := range generators {
		paths = append(paths, sourcePaths(g.KvPairSources)...)
	}
	return paths
}

func secretPaths(generators []types.SecretArgs) []string {
	var paths []string
	for _, g := range generators {
		paths = append(paths, sourcePaths(g.KvPairSources)...)
	}
	return paths
}

// sourcePaths returns the paths of a generator, of which a file can have its key before it.
func sourcePaths(from types.KvPairSources) []string {
	paths := append([]string{from.EnvSource}, from.EnvSources...)
	for _, file := range from.FileSources {
		_, path, _ := strings.Cut(file, "=")
		paths = append(paths, file, path)
	}
	return paths
}

func texts[T ~string](all []T) []string {
	var found []string
	for _, one := range all {
		found = append(found, string(one))
	}
	return found
}

// isRemote reports whether kustomize would take a path for a URL or a repository of git. It also
// reports some that kustomize does not take for one.
func isRemote(path string) bool {
	remote := regexp.MustCompile(`(?i)^(git::)*([a-z][a-z0-9+.-]*://|https?:|github\.com[/:]|[a-z][a-z0-9-]*@)`)
	return remote.MatchString(path)
}
