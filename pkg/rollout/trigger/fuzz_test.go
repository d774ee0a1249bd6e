package trigger_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// FuzzParse is for what anybody may write into an annotation: no text of it is more than a mistake.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"configmap/foo", "cm/a,secret/b", "", ",", "/", "a/b/c", "configmap/[", "secret/(?P<", "ＣＭ/a", "configmap/\x00", "cm/a\ncm/b",
		"\xff/x", "K/a", "cm/\u2028", strings.Repeat("a", 300), "secrets/a.b-c,SECRETS/A",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := trigger.Parse(text)
		if err != nil {
			checkMessage(t, text, err)
		}
		if err == nil && len(objects) == 0 {
			t.Errorf("Parse(%q) names nothing and has no error", text)
		}
		if !slices.IsSortedFunc(objects, trigger.Compare) || len(slices.Compact(slices.Clone(objects))) != len(objects) {
			t.Errorf("Parse(%q) = %v, want each once and in order", text, objects)
		}
		for _, o := range objects {
			again, err := trigger.ParseObject(o.String())
			if again != o || err != nil {
				t.Errorf("ParseObject(%q) = %v, %v, want %v", o.String(), again, err, o)
			}
			if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
				t.Errorf("Parse(%q) names %q, which no object can be: %v", text, o, problems)
			}
		}
	})
}

// FuzzParseConfig is for what anybody may write into a pod template.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		sample().String(), "{}", "null", "", "[", `{"cm/a":null}`, `{"cm/a":"b","configmap/a":"c"}`, `{"cm/a":"\u0000"}`, `{"":""}`,
		`{"cm/a":"\ud800"}`, "{\"cm/a\":\"\xff\"}", `{"secret/a":"A"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := trigger.ParseConfig(text)
		if err != nil {
			checkMessage(t, text, err)
			return
		}
		again, err := trigger.ParseConfig(c.String())
		if diff := cmp.Diff(c, again); err != nil || diff != "" {
			t.Errorf("ParseConfig(%q) written and read again: %v (-want +got)\n%s", text, err, diff)
		}
		label := trigger.MarkOf(c).UndoneFor(c).String()
		if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
			t.Errorf("the mark of %q is %q, which no label can have: %v", text, label, problems)
		}
	})
}

// FuzzParseMark is for what anybody may write into a label.
func FuzzParseMark(f *testing.F) {
	for _, seed := range []string{"", "none", "none.none", "a.b", "a.", "0123456789abcdef.fedcba9876543210", "a.b.c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mark := trigger.ParseMark(text)
		if again := trigger.ParseMark(mark.String()); again != mark {
			t.Errorf("ParseMark(%q) = %+v, and written and read again %+v", text, mark, again)
		}
	})
}

// checkMessage holds for every message: it can go into an Event, whatever was written.
func checkMessage(t *testing.T, text string, err error) {
	t.Helper()
	message := err.Error()
	control := strings.ContainsFunc(message, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != utf8.RuneError })
	if control || !utf8.ValidString(message) {
		t.Errorf("the error about %q is not printable text: %q", text, message)
	}
}
