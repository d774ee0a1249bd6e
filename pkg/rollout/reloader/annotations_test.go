package reloader_test

import (
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestPublicAnnotations has each annotation of Reloader's public reference: what it makes a trigger on a workload whose
// template uses configmap/app, configmap/shared, secret/app and secret/tls; or what it makes of a source; or that it is not read.
// The page lists all of them.
func TestPublicAnnotations(t *testing.T) {
	t.Parallel()
	const onWorkload, onSource, unread = "workload", "source", "unread"
	page, err := os.ReadFile("../../../docs/adoption.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ key, value, where, want string }{
		{"reloader.stakater.com/auto", "true", onWorkload, "configmap/app,configmap/shared,secret/app,secret/tls"},
		{"reloader.stakater.com/auto", "false", onWorkload, ""},
		{"configmap.reloader.stakater.com/auto", "true", onWorkload, "configmap/app,configmap/shared"},
		{"configmap.reloader.stakater.com/auto", "false", onWorkload, ""},
		{"secret.reloader.stakater.com/auto", "true", onWorkload, "secret/app,secret/tls"},
		{"secret.reloader.stakater.com/auto", "false", onWorkload, ""},
		{"configmap.reloader.stakater.com/reload", "shared", onWorkload, "configmap/shared"},
		{"configmap.reloader.stakater.com/reload", "shared, app", onWorkload, "configmap/app,configmap/shared"},
		{"configmap.reloader.stakater.com/reload", "other", onWorkload, "configmap/other"},
		{"configmap.reloader.stakater.com/reload", "^sha.*", onWorkload, "configmap/shared"},
		{"configmap.reloader.stakater.com/reload", "other,.*a.*", onWorkload, "configmap/app,configmap/other,configmap/shared"},
		{"secret.reloader.stakater.com/reload", "tls", onWorkload, "secret/tls"},
		{"secret.reloader.stakater.com/reload", "tls,app", onWorkload, "secret/app,secret/tls"},
		{"secret.reloader.stakater.com/reload", "t(ls|wo)", onWorkload, "secret/tls"},
		{"reloader.stakater.com/search", "true", onWorkload, "secret/tls"},
		{"reloader.stakater.com/search", "false", onWorkload, ""},
		{"configmaps.exclude.reloader.stakater.com/reload", "app", onWorkload, ""},
		{"secrets.exclude.reloader.stakater.com/reload", "app,tls", onWorkload, ""},
		{"reloader.stakater.com/match", "true", onSource, "match"},
		{"reloader.stakater.com/match", "false", onSource, ""},
		{"reloader.stakater.com/ignore", "true", onSource, "ignore"},
		{"reloader.stakater.com/ignore", "false", onSource, ""},
		{"deployment.reloader.stakater.com/pause-period", "5m", unread, ""},
		{"deployment.reloader.stakater.com/paused-at", "2026-01-01T00:00:00Z", unread, ""},
		{"reloader.stakater.com/last-reloaded-from", "{}", unread, ""},
		{"reloader.stakater.com/rollout-strategy", "restart", unread, ""},
		{"reloader.stakater.com/restart-window", "{}", unread, ""},
		{"secretproviderclass.reloader.stakater.com/auto", "true", unread, ""},
		{"secretproviderclass.reloader.stakater.com/reload", "vault", unread, ""},
		{"secretproviderclasses.exclude.reloader.stakater.com/reload", "vault", unread, ""},
	} {
		t.Run(test.key+"="+test.value, func(t *testing.T) {
			t.Parallel()
			given := annotations{test.key: test.value}
			w := reloader.Workload{Annotations: given, Used: used()}
			marks := map[string]reloader.Mark{"secret/tls": reloader.Matched}
			got, err := w.Triggers(func(o api.Ref) reloader.Mark { return marks[o.String()] })
			want, wantMark := test.want, reloader.Mark("")
			if test.where == onSource {
				want, wantMark = "", reloader.Mark(test.want)
			}
			if err != nil || trigger.Format(got) != want {
				t.Errorf("Triggers = %v, %v, want %q", got, err, want)
			}
			if mark := reloader.MarkOf(given); mark != wantMark {
				t.Errorf("MarkOf = %q, want %q", mark, wantMark)
			}
			if isRead := reloader.IsRead(test.key); isRead != (test.where == onWorkload) || !reloader.IsForeign(test.key) {
				t.Errorf("IsRead = %t, want that it is an annotation of Reloader on a %s", isRead, test.where)
			}
			if !strings.Contains(string(page), "`"+test.key) {
				t.Error("docs/adoption.md does not name it")
			}
		})
	}
}

// TestExclusionsBesideAuto: an exclusion means nothing alone.
func TestExclusionsBesideAuto(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"configmaps.exclude.reloader.stakater.com/reload":            "configmap/shared,secret/app,secret/tls",
		"secrets.exclude.reloader.stakater.com/reload":               "configmap/app,configmap/shared,secret/tls",
		"secretproviderclasses.exclude.reloader.stakater.com/reload": "configmap/app,configmap/shared,secret/app,secret/tls",
	} {
		w := reloader.Workload{Annotations: annotations{reloader.Auto: "true", key: "app"}, Used: used()}
		if got, err := w.Triggers(noMarks); err != nil || trigger.Format(got) != want {
			t.Errorf("Triggers beside %s = %v, %v, want %s", key, got, err, want)
		}
	}
}
