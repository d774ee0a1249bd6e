package version_test

import (
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	// A test binary is built from a working copy, stamped with a commit or not.
	valid := regexp.MustCompile(`^(devel(-[0-9a-f]{12})?|v[0-9]+\.[0-9]+\.[0-9]+.*)$`)
	if got := version.Version(); !valid.MatchString(got) {
		t.Errorf("Version = %q, want it to match %s", got, valid)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	commit := func(id string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: id}}
	}
	tests := map[string]struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		"a release":            {"v1.2.3", commit("0123456789abcdef"), "v1.2.3"},
		"a commit":             {"(devel)", commit("0123456789abcdef"), "devel-0123456789ab"},
		"a commit, no version": {"", commit("0123456789ab"), "devel-0123456789ab"},
		"a short commit":       {"(devel)", commit("0123"), "devel"},
		"nothing":              {"", nil, "devel"},
	}
	for name, tc := range tests {
		info := &debug.BuildInfo{Main: debug.Module{Version: tc.version}, Settings: tc.settings}
		if got := version.Of(info); got != tc.want {
			t.Errorf("%s: version = %q, want %q", name, got, tc.want)
		}
	}
}
