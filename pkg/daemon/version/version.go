// Package version has the version of this build.
package version

import "runtime/debug"

// devel is the version of a build that nothing is known about.
const devel = "devel"

// Version returns the version the binary was built as: the module version when it was built as a
// dependency or from a tag, else the commit, else «devel».
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return of(info)
}

func of(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return devel + "-" + s.Value[:12]
		}
	}
	return devel
}
