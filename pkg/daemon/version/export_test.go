package version

import "runtime/debug"

// Of is Version for a build of which that is known.
func Of(info *debug.BuildInfo) string { return of(info) }
