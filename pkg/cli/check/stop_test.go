package check_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
)

// TestStopSignals: liveconfig-exec does not see the stop signal of its container, so its flag has to name the same.
func TestStopSignals(t *testing.T) {
	t.Parallel()
	const field = "spec.containers[0].lifecycle.stopSignal: "
	tests := map[string]struct{ container, want string }{
		"the same":                {"command: [/lc/liveconfig-exec, --on-change=restart, --stop-signal=QUIT, --], lifecycle: {stopSignal: SIGQUIT}", ""},
		"the same, by its number": {"command: [/lc/liveconfig-exec, --on-change=restart, --stop-signal=3, --], lifecycle: {stopSignal: SIGQUIT}", ""},
		"no flag": {
			"command: [/lc/liveconfig-exec, --on-change=restart, --], args: [nginx], lifecycle: {stopSignal: SIGQUIT}",
			field + "liveconfig-exec does not see this field, and ends the program by SIGTERM: add --stop-signal=QUIT to its flags",
		},
		"another": {
			"command: [/lc/liveconfig-exec], args: [--stop-signal, INT, --on-change, exit, --, nginx], lifecycle: {stopSignal: SIGRTMIN+3}",
			field + "liveconfig-exec does not see this field, and ends the program by SIGINT: write --stop-signal=RTMIN+3 in its flags",
		},
		"SIGTERM needs no flag":                 {"command: [/lc/liveconfig-exec, --on-change=restart, --], lifecycle: {stopSignal: SIGTERM}", ""},
		"nothing is done on a change":           {"command: [/lc/liveconfig-exec, --], lifecycle: {stopSignal: SIGQUIT}", ""},
		"nothing is done on a change, as asked": {"command: [/lc/liveconfig-exec, --on-change=ignore, --], lifecycle: {stopSignal: SIGQUIT}", ""},
		"the flag is the program's": {
			"command: [/lc/liveconfig-exec, --on-change=restart, --, nginx, --stop-signal=QUIT], lifecycle: {stopSignal: SIGQUIT}",
			field + "liveconfig-exec does not see this field, and ends the program by SIGTERM: add --stop-signal=QUIT to its flags",
		},
		"another program":   {"command: [/bin/server, --on-change=restart], lifecycle: {stopSignal: SIGQUIT}", ""},
		"no stop signal":    {"command: [/lc/liveconfig-exec, --on-change=restart, --]", ""},
		"no such signal":    {"command: [/lc/liveconfig-exec, --on-change=restart, --], lifecycle: {stopSignal: SIGHELP}", ""},
		"a command of rags": {"command: [1, {a: b}, /lc/liveconfig-exec, --on-change=restart], lifecycle: {stopSignal: [SIGQUIT]}", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, _ := review("kind: Pod\nspec: {containers: [{" + tt.container + "}]}\n")
			var got []string
			for _, f := range found {
				got = append(got, f.Field+": "+f.Message)
				if f.Severity != check.Warning {
					t.Errorf("%s is a %s, want a warning", f, f.Severity)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
