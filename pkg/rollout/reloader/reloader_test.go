package reloader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

type annotations = map[string]string

// used is what the pod templates of these tests use.
func used() []api.Ref {
	return []api.Ref{{Kind: api.ConfigMap, Name: "app"}, {Kind: api.ConfigMap, Name: "shared"}, {Kind: api.Secret, Name: "app"}, {Kind: api.Secret, Name: "tls"}}
}

func noMarks(api.Ref) reloader.Mark { return "" }

func TestTriggers(t *testing.T) {
	t.Parallel()
	const auto, search = "reloader.stakater.com/auto", "reloader.stakater.com/search"
	const configMaps, secrets = "configmap.reloader.stakater.com/reload", "secret.reloader.stakater.com/reload"
	tests := map[string]struct {
		workload, template annotations
		marks              map[string]reloader.Mark
		want               string
	}{
		"no annotation triggers nothing":                {annotations{"a": "b"}, annotations{"c": "d"}, nil, ""},
		"auto is all that the template uses":            {annotations{auto: "true"}, nil, nil, "configmap/app,configmap/shared,secret/app,secret/tls"},
		"auto that is off":                              {annotations{auto: "false"}, nil, nil, ""},
		"auto of ConfigMaps":                            {annotations{"configmap.reloader.stakater.com/auto": "true"}, nil, nil, "configmap/app,configmap/shared"},
		"auto of Secrets, although auto is off":         {annotations{auto: "false", "secret.reloader.stakater.com/auto": "true"}, nil, nil, "secret/app,secret/tls"},
		"names, also of what the template does not use": {annotations{configMaps: "other, app,", secrets: "tls"}, nil, nil, "configmap/app,configmap/other,secret/tls"},
		"a name twice is one trigger":                   {annotations{configMaps: "app,app", auto: "true"}, nil, nil, "configmap/app,configmap/shared,secret/app,secret/tls"},
		"a dot in a name is a dot":                      {annotations{configMaps: "a.p"}, nil, nil, "configmap/a.p"},
		"a pattern matches what the template uses":      {annotations{configMaps: "s.*,ap+"}, nil, nil, "configmap/app,configmap/shared"},
		"a pattern matches whole names":                 {annotations{secrets: "ap|tls"}, nil, nil, "secret/tls"},
		"the shorter alternative first":                 {annotations{secrets: "a|app"}, nil, nil, "secret/app"},
		"a pattern with anchors":                        {annotations{secrets: "^t.s$"}, nil, nil, "secret/tls"},
		"search is what has a mark and is used": {
			annotations{search: "true"},
			nil,
			map[string]reloader.Mark{"configmap/app": "match", "secret/tls": "match", "configmap/other": "match"},
			"configmap/app,secret/tls",
		},
		"auto goes before search": {annotations{search: "true", auto: "true"}, nil, nil, "configmap/app,configmap/shared,secret/app,secret/tls"},
		"names come beside search": {
			annotations{search: "true", configMaps: "other"}, nil, map[string]reloader.Mark{"secret/tls": "match"}, "configmap/other,secret/tls",
		},
		"an ignored source is no trigger by auto": {
			annotations{auto: "true"}, nil, map[string]reloader.Mark{"configmap/shared": "ignore", "secret/app": "ignore"}, "configmap/app,secret/tls",
		},
		"a source that cannot be copied is no trigger by auto or search": {
			annotations{auto: "true", search: "true"}, nil, map[string]reloader.Mark{"secret/tls": "uncopyable"}, "configmap/app,configmap/shared,secret/app",
		},
		"it is one by its name":                       {annotations{secrets: "tls"}, nil, map[string]reloader.Mark{"secret/tls": "uncopyable"}, "secret/tls"},
		"an ignored source is no trigger by its name": {annotations{configMaps: "app"}, nil, map[string]reloader.Mark{"configmap/app": "ignore"}, ""},
		"excluded sources": {
			annotations{
				auto: "true", "configmaps.exclude.reloader.stakater.com/reload": "shared, other", "secrets.exclude.reloader.stakater.com/reload": "app",
			},
			nil, nil,
			"configmap/app,secret/tls",
		},
		"annotations of the template count where the workload has none": {nil, annotations{auto: "true"}, nil, "configmap/app,configmap/shared,secret/app,secret/tls"},
		"for each kind": {annotations{secrets: "tls"}, annotations{auto: "true"}, nil, "configmap/app,configmap/shared,secret/tls"},
		"those of the workload go before the template": {annotations{auto: "false"}, annotations{auto: "true", configMaps: "app"}, nil, ""},
		"exclusions of both": {
			annotations{"secrets.exclude.reloader.stakater.com/reload": "app,tls"},
			annotations{auto: "true", "configmaps.exclude.reloader.stakater.com/reload": "app"},
			nil, "configmap/shared",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := reloader.Workload{Annotations: test.workload, Template: test.template, Used: used()}
			got, err := w.Triggers(func(o api.Ref) reloader.Mark { return test.marks[o.String()] })
			if diff := cmp.Diff(test.want, trigger.Format(got)); err != nil || diff != "" {
				t.Errorf("Triggers = %v (-want +got):\n%s", err, diff)
			}
			if len(got) > 0 && !w.IsAsking() {
				t.Error("the workload has triggers and asks for none")
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const list = "configmap.reloader.stakater.com/reload"
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprintf("a%d", i)
	}
	tests := map[string]struct {
		key, value string
		want       string
	}{
		"a pattern that cannot be read":       {list, "app,a(b", `the annotation configmap.reloader.stakater.com/reload: "a(b" is neither a name nor a regular expression: error parsing regexp: missing closing ): `},
		"a pattern that matches nothing used": {list, "app,other.*", `"other.*" matches nothing that the pod template uses: write the names`},
		"a pattern with repeat counts":        {list, "app,a{1000}", `"a{1000}" has a brace: write the names`},
		"a pattern that is too long":          {list, "app," + strings.Repeat(".", 254), `has 254 bytes, more than 253: write the names`},
		"a name in upper case":                {list, "app,App", `"App" matches nothing that the pod template uses`},
		"a list of nothing":                   {list, " ,", `it names nothing: write names with commas between them, or remove it`},
		"an empty list":                       {list, "", `it names nothing`},
		"a list that is too long":             {list, strings.Join(many, ","), `it has 257 entries, more than 256`},
		"too many patterns":                   {list, "app," + strings.Repeat("a.*,", 33), `it has 33 regular expressions, more than 32: write the names`},
		"patterns that are too long together": {list, "app," + strings.Repeat(strings.Repeat("a*", 100)+",", 21), `its regular expressions have 4200 bytes together, more than 4096: write the names`},
		"a boolean that is none":              {"reloader.stakater.com/auto", "yes", `the annotation reloader.stakater.com/auto: "yes" is not a boolean: write "true" or "false"`},
		"a search that is none":               {"reloader.stakater.com/search", "", `reloader.stakater.com/search: "" is not a boolean`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := reloader.Workload{Annotations: annotations{test.key: test.value}, Used: used()}
			got, err := w.Triggers(noMarks)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Triggers = %v, want one mistake, %q", err, test.want)
			}
			if strings.HasPrefix(test.value, "app,") && trigger.Format(got) != "configmap/app" {
				t.Errorf("beside the mistake there is %v, want configmap/app", got)
			}
			if !w.IsAsking() {
				t.Error("nobody reads the mistake: the workload asks for nothing")
			}
		})
	}
}

// TestTooManyTriggers: each trigger costs requests, and a template can use any number of objects.
func TestTooManyTriggers(t *testing.T) {
	t.Parallel()
	w := reloader.Workload{Annotations: annotations{reloader.Auto: "true"}}
	for i := range 257 {
		w.Used = append(w.Used, api.Ref{Kind: api.Secret, Name: fmt.Sprintf("a%d", i)})
	}
	got, err := w.Triggers(noMarks)
	if len(got) > 0 || err == nil || !strings.Contains(err.Error(), "make 257 objects triggers, more than 256") {
		t.Errorf("Triggers = %d objects, %v", len(got), err)
	}
}

func TestMarkOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations annotations
		want        reloader.Mark
	}{
		"none":                          {nil, ""},
		"match":                         {annotations{reloader.Match: "true"}, reloader.Matched},
		"ignore":                        {annotations{reloader.Ignore: "true"}, reloader.Ignored},
		"ignore goes before match":      {annotations{reloader.Match: "true", reloader.Ignore: "true"}, reloader.Ignored},
		"nothing but true is a mark":    {annotations{reloader.Match: "True", reloader.Ignore: "1"}, ""},
		"the annotations of a workload": {annotations{reloader.Auto: "true", reloader.Search: "true"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := reloader.MarkOf(test.annotations); got != test.want {
				t.Errorf("MarkOf = %q, want %q", got, test.want)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ isRead, isForeign bool }{
		"reloader.stakater.com/auto":                          {true, true},
		"reloader.stakater.com/search":                        {true, true},
		"configmap.reloader.stakater.com/auto":                {true, true},
		"secret.reloader.stakater.com/reload":                 {true, true},
		"secrets.exclude.reloader.stakater.com/reload":        {true, true},
		"deployment.reloader.stakater.com/pause-period":       {false, true},
		"secretproviderclass.reloader.stakater.com/reload":    {false, true},
		"reloader.stakater.com/match":                         {false, true},
		"liveconfig.internal/triggered-by":                    {false, false},
		"notreloader.stakater.com/auto":                       {false, false},
		"reloader.stakater.com":                               {false, true},
		"reloader.stakater.com.example.com/last-reloaded-for": {false, false},
	}
	for key, want := range tests {
		if got := reloader.IsRead(key); got != want.isRead {
			t.Errorf("IsRead(%s) = %t", key, got)
		}
		if got := reloader.IsForeign(key); got != want.isForeign {
			t.Errorf("IsForeign(%s) = %t", key, got)
		}
	}
}

// TestWanted: commands do not know whether the controller reads annotations of Reloader. What it has rolled out shows that.
func TestWanted(t *testing.T) {
	t.Parallel()
	const rolledOut = `{"configmap/app":"app-0123456789","secret/tls":"tls-0123456789"}`
	tests := map[string]struct {
		workload  annotations
		config    string
		want, key string
	}{
		"the project's annotation goes first":   {annotations{reloader.Auto: "true", trigger.TriggeredBy: "configmap/a"}, rolledOut, "configmap/a", trigger.TriggeredBy},
		"what was rolled out":                   {annotations{reloader.Auto: "true"}, rolledOut, "configmap/app,secret/tls", trigger.TriggeredBy},
		"nothing was rolled out":                {annotations{reloader.Auto: "true"}, "", "", ""},
		"a config that cannot be read":          {annotations{reloader.Auto: "true"}, "{", "", ""},
		"no annotation of Reloader any more":    {nil, rolledOut, "", ""},
		"an annotation that makes no triggers":  {annotations{reloader.Match: "true"}, rolledOut, "", ""},
		"a config without sources, by accident": {annotations{reloader.Auto: "true"}, "{}", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := &corev1.PodTemplateSpec{}
			if test.config != "" {
				template.Annotations = annotations{trigger.ConfigAnnotation: test.config}
			}
			value, key, found := reloader.Wanted(test.workload, template)
			if value != test.want || found != (test.key != "") || found && key != test.key {
				t.Errorf("Wanted = %q, %q, %t, want %q", value, key, found, test.want)
			}
		})
	}
}

// TestManyNames: the time of a match grows with the names, of which a template can have any number.
func TestManyNames(t *testing.T) {
	t.Parallel()
	w := reloader.Workload{Annotations: annotations{reloader.ReloadOf(api.Secret): "app,.*"}}
	for i := range 67 {
		w.Used = append(w.Used, api.Ref{Kind: api.Secret, Name: fmt.Sprintf("%0245d", i)})
	}
	const want = "its regular expressions choose among names of 16415 bytes together, more than 16384: write the names"
	got, err := w.Triggers(noMarks)
	if err == nil || !strings.Contains(err.Error(), want) || trigger.Format(got) != "secret/app" {
		t.Errorf("Triggers = %v, %v, want secret/app and %q", got, err, want)
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	w := reloader.Workload{
		Annotations: annotations{
			reloader.ReloadOf(api.ConfigMap): "b,a.*,a,b,a(b", reloader.ReloadOf(api.Secret): "tls,other", reloader.ExcludeOf(api.Secret): "other",
		},
		Template: annotations{reloader.ReloadOf(api.ConfigMap): "c"},
	}
	if got, want := trigger.Format(w.Named()), "configmap/a,configmap/b,secret/tls"; got != want {
		t.Errorf("Named = %q, want %q", got, want)
	}
}

// TestMatches: what was matched before is not matched again, and marks count all the same.
func TestMatches(t *testing.T) {
	t.Parallel()
	w := reloader.Workload{Annotations: annotations{reloader.ReloadOf(api.ConfigMap): "app,s.*,a(b"}, Used: used()}
	w.Matches = w.Match()
	w.Used = nil
	got, err := w.Triggers(noMarks)
	if trigger.Format(got) != "configmap/app,configmap/shared" || err == nil || !strings.Contains(err.Error(), "missing closing") {
		t.Errorf("Triggers = %v, %v", got, err)
	}
	got, _ = w.Triggers(func(o api.Ref) reloader.Mark {
		if o.Name == "shared" {
			return reloader.Ignored
		}
		return ""
	})
	if trigger.Format(got) != "configmap/app" {
		t.Errorf("Triggers = %v, want configmap/app alone", got)
	}
}
