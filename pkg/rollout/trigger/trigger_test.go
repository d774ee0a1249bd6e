package trigger_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

func configMap(name string) api.Ref { return api.Ref{Kind: api.ConfigMap, Name: name} }

func secret(name string) api.Ref { return api.Ref{Kind: api.Secret, Name: name} }

// TestParse is about fault 36.
func TestParse(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", 253)
	tests := map[string]struct {
		text string
		want []api.Ref
	}{
		"one":                                   {"configmap/foo", []api.Ref{configMap("foo")}},
		"several, in order of kind and name":    {"secret/b,configmap/z,secret/a,configmap/c", []api.Ref{configMap("c"), configMap("z"), secret("a"), secret("b")}},
		"plurals and the short name of kubectl": {"configmaps/a,cm/b,secrets/c", []api.Ref{configMap("a"), configMap("b"), secret("c")}},
		"upper and lower case of kinds are one": {"ConfigMap/a,CM/b,Secret/c", []api.Ref{configMap("a"), configMap("b"), secret("c")}},
		"the same under two spellings is one":   {"cm/a,configmap/a,cm/a", []api.Ref{configMap("a")}},
		"a ConfigMap and a Secret of one name":  {"secret/a,configmap/a", []api.Ref{configMap("a"), secret("a")}},
		"space around entries":                  {" configmap/a ,\n\tsecret/b\n", []api.Ref{configMap("a"), secret("b")}},
		"a comma too many":                      {",configmap/a,,", []api.Ref{configMap("a")}},
		"a name with dots":                      {"cm/kube-root-ca.crt", []api.Ref{configMap("kube-root-ca.crt")}},
		"the longest name":                      {"cm/" + longest, []api.Ref{configMap(longest)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := trigger.Parse(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Parse(%q) (-want +got)\n%s", test.text, diff)
			}
			again, err := trigger.Parse(trigger.Format(got))
			if diff := cmp.Diff(got, again); err != nil || diff != "" {
				t.Errorf("Parse(Format) = %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestParseMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                             {"", []string{"names nothing", "configmap/NAME"}},
		"nothing but commas and space":        {" , ,", []string{"names nothing"}},
		"a name without a kind":               {"foo", []string{`"foo" names no kind`, `"configmap/foo"`, `"secret/foo"`}},
		"a kind that cannot trigger":          {"deployment/web", []string{`"deployment/web" is of kind "deployment"`}},
		"a kind that kubectl has not":         {"cms/a", []string{`kind "cms"`}},
		"no kind":                             {"/foo", []string{`kind ""`}},
		"no name":                             {"configmap/", []string{`"configmap/" names no object`}},
		"upper case in a name":                {"configmap/Foo", []string{`"configmap/Foo" names no object`, "lower case"}},
		"a name that is too long":             {"cm/" + strings.Repeat("a", 254), []string{"up to 253"}},
		"another namespace":                   {"configmap/default/foo", []string{`"configmap/default/foo" has a namespace`, "own namespace", "write configmap/foo"}},
		"a pattern":                           {"configmap/.*", []string{`"configmap/.*" names no object`}},
		"a bracket that no pattern can have":  {"configmap/[", []string{`"configmap/[" names no object`}},
		"a way out of a directory":            {"secret/../x", []string{"names no object"}},
		"a kind with space before the slash":  {"configmap /foo", []string{`kind "configmap "`}},
		"separated by semicolons":             {"configmap/a;secret/b", []string{`"configmap/a;secret/b" names no object`}},
		"every mistake of several is said":    {"foo,cm/A,cm/b,pod/x", []string{`"foo"`, `"cm/A"`, `"pod/x"`}},
		"control characters are shown quoted": {"a\x1b[2J\nb", []string{`"a\x1b[2J\nb" names no kind`}},
		"bytes that are not text":             {"\xff\xfe/x", []string{`\xff\xfe`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := trigger.Parse(test.text)
			if err == nil {
				t.Fatalf("Parse(%q) has no error", test.text)
			}
			for _, want := range test.want {
				if got := err.Error(); !strings.Contains(got, want) {
					t.Errorf("Parse(%q) error = %q, want it to have %q", test.text, got, want)
				}
			}
		})
	}
}

func TestParseKeepsWhatIsRight(t *testing.T) {
	t.Parallel()
	got, err := trigger.Parse("secret/b,foo,cm/a")
	if err == nil || strings.Contains(err.Error(), "secret/b") {
		t.Errorf("error = %v, want one about foo alone", err)
	}
	if diff := cmp.Diff([]api.Ref{configMap("a"), secret("b")}, got); diff != "" {
		t.Errorf("Parse (-want +got)\n%s", diff)
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	type answer struct {
		Value, Key string
		Found      bool
	}
	tests := map[string]struct {
		annotations map[string]string
		want        answer
	}{
		"no annotations":    {nil, answer{Key: trigger.TriggeredBy}},
		"other annotations": {map[string]string{trigger.AfterUndo: trigger.Pause}, answer{Key: trigger.TriggeredBy}},
		"our name":          {map[string]string{trigger.TriggeredBy: "cm/a"}, answer{"cm/a", trigger.TriggeredBy, true}},
		"the first name":    {map[string]string{trigger.TriggeredByFirst: "cm/a"}, answer{"cm/a", trigger.TriggeredByFirst, true}},
		"our name counts before the first": {
			map[string]string{trigger.TriggeredByFirst: "cm/a", trigger.TriggeredBy: "cm/b"},
			answer{"cm/b", trigger.TriggeredBy, true},
		},
		"an empty value is there, and hides the first": {
			map[string]string{trigger.TriggeredByFirst: "cm/a", trigger.TriggeredBy: ""},
			answer{"", trigger.TriggeredBy, true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, key, found := trigger.Wanted(test.annotations)
			if diff := cmp.Diff(test.want, answer{value, key, found}); diff != "" {
				t.Errorf("Wanted (-want +got)\n%s", diff)
			}
		})
	}
}
