package settings_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

func TestParse(t *testing.T) {
	t.Parallel()
	defaults := settings.Settings{
		Steps: settings.DefaultSteps(), Pause: 30 * time.Second, Check: settings.CheckReady, OnFailure: settings.Revert,
		Evidence: settings.EvidenceFiles,
	}
	with := func(change func(*settings.Settings)) settings.Settings {
		s := defaults
		change(&s)
		return s
	}
	tests := map[string]struct {
		text string
		want settings.Settings
	}{
		"nothing":   {"", defaults},
		"an object": {"{}", defaults},
		"null":      {"pause: null\nsteps:", defaults},
		"all of it": {
			`
steps: [1, 5%, 12.5%, 100%]          # pods or shares
pause: 1m30s
check: none
onFailure: freeze
evidence: none
group: web.v1
validate:
  - {key: app.yml, schemaFrom: {key: app.schema.json}}
  - {key: limits, format: json, cel: "self.max <= 1000", message: "max is at most 1000"}
  - {pair: {cert: tls.crt, key: tls.key}, notExpiredFor: 24h}
`, settings.Settings{
				Steps: []settings.Step{{Pods: 1}, {Share: 0.05}, {Share: 0.125}, {Share: 1}}, Pause: 90 * time.Second,
				Check: settings.CheckNone, OnFailure: settings.Freeze, Evidence: settings.EvidenceNone, Group: "web.v1",
				Rules: []settings.Rule{
					{Key: "app.yml", Format: settings.YAML, SchemaKey: "app.schema.json"},
					{Key: "limits", Format: settings.JSON, CEL: "self.max <= 1000", Message: "max is at most 1000"},
					{Pair: &settings.Pair{Cert: "tls.crt", Key: "tls.key"}, NotExpiredFor: 24 * time.Hour},
				},
			},
		},
		"JSON":     {`{"pause": "0s"}`, with(func(s *settings.Settings) { s.Pause = 0 })},
		"days":     {`pause: 1d12h`, with(func(s *settings.Settings) { s.Pause = 36 * time.Hour })},
		"no steps": {`steps: []`, with(func(s *settings.Settings) { s.Steps = []settings.Step{} })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, mistakes := settings.Parse(tc.text)
			if len(mistakes) > 0 {
				t.Fatalf("mistakes = %v, want none", mistakes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"{":                    "is not YAML: ",
		"[1]":                  "must be an object with some of the fields check, evidence, group,",
		"step: [1]":            "step: unknown field; there are check, evidence, group, onFailure, pause, steps, validate",
		"pause: 1s\npause: 2s": "pause: is given twice",
		"steps: 1":             "steps: must be a list",
		"steps: [1, 0]":        "steps[1]: a number of pods must be from 1 to 1000",
		"steps: [0%]":          "steps[0]: a share must be above 0% and at most 100%",
		"steps: [101%]":        "steps[0]: a share must be above 0%",
		"steps: [NaN%]":        "steps[0]: must be a number of pods, such as 1, or a share of them",
		"steps: [half]":        "steps[0]: must be a number of pods",
		"steps: [{}]":          "steps[0]: must be a number of pods",
		"steps: [" + strings.Repeat("1,", 21) + "]": "steps: has 21 elements, the most is 20",
		"pause: 30":                             "pause: must be a duration such as 30s",
		"pause: -1s":                            "pause: must be from 0s to 7d",
		"pause: -1d":                            "pause: must be from 0s to 7d",
		"pause: 7d1s":                           "pause: must be from 0s to 7d",
		"pause: 9999999999999999999d":           "pause: must be a duration such as 30s",
		"pause: 200000d":                        "pause: must be from 0s to 7d",
		"pause: 7d-1h":                          "pause: must be a duration such as 30s",
		"pause: d":                              "pause: must be a duration such as 30s",
		"pause: 1d1d":                           "pause: must be a duration such as 30s",
		"check: alive":                          "check: must be one of ready, none",
		"onFailure: panic":                      "onFailure: must be one of revert, freeze",
		"group: A_":                             "group: a lowercase RFC 1123 subdomain",
		"group: 1":                              "group: must be a text: put it in quotes",
		"validate: [{}]":                        "validate[0]: names neither a key nor a pair",
		"validate: [{key: a}]":                  "validate[0]: has no format, and the key does not end in one: write yaml, json, toml, properties, ini",
		"validate: [{key: a/b.json}]":           "validate[0].key: a valid config key",
		"validate: [{key: a.json, message: m}]": "validate[0]: message goes with cel only",
		"validate: [{key: a.json, notExpiredFor: 1h}]":       "validate[0]: notExpiredFor goes with pair only",
		"validate: [{key: a.json, cel: ''}]":                 "validate[0].cel: must not be empty",
		"validate: [{key: a.json, schemaFrom: {}}]":          "validate[0].schemaFrom: names no key: write {key: app.schema.json}",
		"validate: [{pair: {cert: c}}]":                      "validate[0].pair: must name both: write {cert: tls.crt, key: tls.key}",
		"validate: [{pair: {cert: c, key: k}, key: a.json}]": "validate[0]: pair goes with notExpiredFor only",
		"a: &a {pause: 1s}\nvalidate: *a":                    "validate: must be a list",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, mistakes := settings.Parse(text)
			all := ""
			for _, m := range mistakes {
				all += m.String() + "\n"
			}
			if !strings.Contains(all, "liveconfig.internal/release: "+want) {
				t.Errorf("mistakes = %q, want one with %q", all, want)
			}
		})
	}
	_, mistakes := settings.Parse("pause: x\ncheck: y\n")
	if len(mistakes) != 2 || mistakes[0].Line != 1 || mistakes[1].Line != 2 {
		t.Errorf("mistakes = %v, want both with their lines", mistakes)
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		group      string
		isReadable bool
	}{
		"":                             {"", true},
		"steps: [1]":                   {"", true},
		"{group: web, pause: no}":      {"web", true},
		"group: 'no'":                  {"no", true},
		"group: [a]":                   {"", false},
		"{group: a, group: b}":         {"", false},
		"- group":                      {"", false},
		"{":                            {"", false},
		strings.Repeat("a", 17<<10):    {"", false},
		"group: a_b":                   {"", false},
		"group: null":                  {"", true},
		"{group: a, more: {group: b}}": {"a", true},
	} {
		for name, text := range map[string]string{"text": text, "brief": settings.Brief(text)} {
			if group, isReadable := settings.GroupOf(text), settings.HasReadableGroup(text); group != want.group || isReadable != want.isReadable {
				t.Errorf("the group of the %s %.30q is %q, %t, want %+v", name, text, group, isReadable, want)
			}
		}
	}
}

// hostile are texts that are as long as the annotation may be, and were made to take time or memory.
func hostile() map[string]string {
	fill := func(begin, part, end string) string {
		const longest = 16 << 10
		return begin + strings.Repeat(part, (longest-len(begin)-len(end))/len(part)) + end
	}
	return map[string]string{
		"the same field again and again": fill("{", "a,", "a}"),
		"the same value again and again": fill("{group: a, ", "group: a,", "}"),
		"lists in lists":                 fill("", "[", ""),
		"objects in objects":             fill("", "{a: ", ""),
		"blocks in blocks":               fill("", "- ", "a"),
		"keys of keys":                   fill("", "? ", "a"),
		"anchors and aliases":            fill("a: &a [x,x,x,x,x,x,x,x,x]\n", "b: &b [*a,*a,*a,*a,*a,*a]\n", ""),
		"mistakes in a list":             fill("validate: [", "{b: 1},", "]"),
		"mistakes in steps":              fill("steps: [", "x,", "x]"),
		"comments":                       fill("", "#\n", ""),
		"quotes":                         fill("", `"`, ""),
		"merge keys":                     fill("", "<<: {}\n", ""),
	}
}

// TestHostileAnnotations take little time and memory: they are read in the controller.
func TestHostileAnnotations(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) { wantCheap(t, text) })
	}
}

// wantCheap reads a text in all ways, and fails if that takes a second or 32 MiB.
func wantCheap(t *testing.T, text string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime(t)
	_, mistakes := settings.Parse(text)
	_ = settings.GroupOf(text)
	took := cpuTime(t) - start
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; took > time.Second || used > 32<<20 {
		t.Errorf("a text of %d bytes takes %v and %d bytes", len(text), took, used)
	}
	for _, m := range mistakes {
		if len(m.String()) > 64<<10 {
			t.Errorf("a mistake has %d bytes", len(m.String()))
		}
	}
	if len(mistakes) > 20 {
		t.Errorf("%d mistakes are reported, want 20 at most", len(mistakes))
	}
}

// cpuTime returns how long the processor has worked for this thread, to which the caller is locked. On a
// busy machine the clock would count the work of others.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func FuzzParse(f *testing.F) {
	f.Add("steps: [1, 5%]\nvalidate: [{key: a.json, cel: 'self.a == 1'}]")
	for _, text := range hostile() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wantCheap(t, text)
		s, mistakes := settings.Parse(text)
		if len(mistakes) > 0 {
			return
		}
		for _, step := range s.Steps {
			if (step.Pods > 0) == (step.Share > 0) || step.Share > 1 {
				t.Errorf("%q has the step %+v", text, step)
			}
		}
		for _, r := range s.Rules {
			if (r.Pair == nil) == (r.Key == "") || r.Pair == nil && r.Format == "" {
				t.Errorf("%q has the rule %+v", text, r)
			}
		}
	})
}
