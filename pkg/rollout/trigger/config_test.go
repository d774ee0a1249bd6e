package trigger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// sample has an object with a copy, one whose version has none, and one that does not exist.
func sample() trigger.Config {
	return trigger.Config{configMap("foo"): "foo-0123456789", configMap("gone"): "", secret("bar"): trigger.Uncopied("bar-abcdefabcd")}
}

func TestConfigIsWrittenInOneWay(t *testing.T) {
	t.Parallel()
	const want = `{"configmap/foo":"foo-0123456789","configmap/gone":"","secret/bar":"uncopied:bar-abcdefabcd"}`
	for range 20 { // The order of a map is another each time.
		if got := sample().String(); got != want {
			t.Fatalf("String = %s, want %s", got, want)
		}
	}
	if got := trigger.Config(nil).String(); got != "{}" {
		t.Errorf("String of no config = %s, want {}", got)
	}
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want trigger.Config
	}{
		"what String writes":           {sample().String(), sample()},
		"nothing":                      {"{}", trigger.Config{}},
		"null":                         {"null", trigger.Config{}},
		"spellings as in TriggeredBy":  {`{"cm/foo":"foo-1"}`, trigger.Config{configMap("foo"): "foo-1"}},
		"one name of two kinds":        {`{"cm/a":"a-1","secret/a":"a-1"}`, trigger.Config{configMap("a"): "a-1", secret("a"): "a-1"}},
		"space, as people indent JSON": {"{\n  \"cm/a\": \"\"\n}\n", trigger.Config{configMap("a"): ""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := trigger.ParseConfig(test.text)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("ParseConfig(%q) error = %v (-want +got)\n%s", test.text, err, diff)
			}
		})
	}
}

func TestParseConfigMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"nothing":                          {"", "not an object of texts"},
		"no JSON":                          {"configmap/foo", "not an object of texts"},
		"a list":                           {`["configmap/foo"]`, "not an object of texts"},
		"a name that is not text":          {`{"configmap/foo":1}`, "not an object of texts"},
		"an object in an object":           {`{"configmap":{"foo":"x"}}`, "not an object of texts"},
		"more after the end":               {`{}{}`, "not an object of texts"},
		"no kind":                          {`{"foo":"foo-1"}`, `"foo" names no kind`},
		"a kind that cannot trigger":       {`{"pod/foo":"foo-1"}`, `kind "pod"`},
		"a copy with an invalid name":      {`{"configmap/foo":"Foo/1"}`, `"Foo/1" is not a name of a copy of configmap/foo`},
		"a copy with a control character":  {`{"configmap/foo":"a\nb"}`, `"a\nb" is not a name of a copy`},
		"a version that is empty":          {`{"secret/bar":"uncopied:"}`, `is not a name of a copy`},
		"one object under two spellings":   {`{"cm/foo":"foo-1","configmap/foo":"foo-2"}`, "configmap/foo is there under two spellings"},
		"depth that no parser should take": {strings.Repeat(`{"a":`, 20_000), "not an object of texts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := trigger.ParseConfig(test.text)
			if err == nil || got != nil {
				t.Fatalf("ParseConfig(%.99q) = %v, %v, want nothing and an error", test.text, got, err)
			}
			for _, want := range []string{test.want, trigger.ConfigAnnotation} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("ParseConfig(%.99q) error = %q, want it to have %q", test.text, err, want)
				}
			}
		})
	}
}

func TestObjectsAndCopies(t *testing.T) {
	t.Parallel()
	c := sample()
	if diff := cmp.Diff([]api.Ref{configMap("foo"), configMap("gone"), secret("bar")}, c.Objects()); diff != "" {
		t.Errorf("Objects (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[api.Ref]string{configMap("foo"): "foo-0123456789"}, c.Copies()); diff != "" {
		t.Errorf("Copies (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[api.Ref]string{secret("bar"): "bar-abcdefabcd"}, c.Uncopied()); diff != "" {
		t.Errorf("Uncopied (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(sample(), c); diff != "" {
		t.Errorf("Copies changed the config (-want +got)\n%s", diff)
	}
	if got := len(trigger.Config(nil).Objects()) + len(trigger.Config(nil).Copies()); got != 0 {
		t.Errorf("no config has %d objects and copies, want none", got)
	}
}

// TestMark is the life of one label: rolled out, undone, rolled out again.
func TestMark(t *testing.T) {
	t.Parallel()
	first, second := trigger.Config{configMap("foo"): "foo-1"}, trigger.Config{configMap("foo"): "foo-2"}
	rolled := trigger.MarkOf(second)
	undone := rolled.UndoneFor(first)
	long := trigger.Config{}
	for i := range 500 {
		long[configMap(fmt.Sprintf("foo-%d", i))] = strings.Repeat("a", 253)
	}
	tests := map[string]struct {
		mark                                    trigger.Mark
		forFirst, forSecond, undone, firstUndid bool
	}{
		"nothing was rolled out":               {mark: trigger.Mark{}},
		"one was rolled out":                   {mark: rolled, forSecond: true},
		"the other took its place":             {mark: undone, forSecond: true, undone: true, firstUndid: true},
		"and another time":                     {mark: undone.UndoneFor(first), forSecond: true, undone: true, firstUndid: true},
		"the undone one is rolled out again":   {mark: trigger.MarkOf(first), forFirst: true},
		"undone where nothing was rolled out":  {mark: trigger.Mark{}.UndoneFor(first), undone: true, firstUndid: true},
		"a label that somebody else has given": {mark: trigger.ParseMark("v1.2.3"), undone: true},
		"undone and back":                      {mark: undone.Again(), forSecond: true},
		"a label that somebody has emptied":    {mark: trigger.ParseMark("")},
		"a long config was undone":             {mark: trigger.MarkOf(long).UndoneFor(sample()), undone: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for about, is := range map[string]struct{ got, want bool }{
				"IsUndone":              {test.mark.IsUndone(), test.undone},
				"Again().IsUndone":      {test.mark.Again().IsUndone(), false},
				"Again().IsFor(second)": {test.mark.Again().IsFor(second), test.forSecond},
				"IsFor(first)":          {test.mark.IsFor(first), test.forFirst},
				"IsFor(second)":         {test.mark.IsFor(second), test.forSecond},
				"IsUndoneFor(first)":    {test.mark.IsUndoneFor(first), test.firstUndid},
				"IsUndoneFor(second)":   {test.mark.IsUndoneFor(second), false},
			} {
				if is.got != is.want {
					t.Errorf("%s = %v, want %v", about, is.got, is.want)
				}
			}
			label := test.mark.String()
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
				t.Errorf("String = %q, which no label can have: %v", label, problems)
			}
			if got := trigger.ParseMark(label); got != test.mark {
				t.Errorf("ParseMark(%q) = %+v, want %+v", label, got, test.mark)
			}
		})
	}
}

func TestEachConfigHasItsMark(t *testing.T) {
	t.Parallel()
	configs := map[string]trigger.Config{
		"none":                     {},
		"an object without a copy": {configMap("foo"): ""},
		"a copy":                   {configMap("foo"): "foo-1"},
		"another copy":             {configMap("foo"): "foo-2"},
		"of a Secret":              {secret("foo"): "foo-1"},
		"of another name":          {configMap("fo"): "foo-1"},
		"two":                      {configMap("foo"): "foo-1", secret("foo"): "foo-1"},
	}
	for name, c := range configs {
		for other, o := range configs {
			if got, want := trigger.MarkOf(c).IsFor(o), name == other; got != want {
				t.Errorf("the mark of «%s» IsFor «%s» = %v, want %v", name, other, got, want)
			}
		}
	}
}

func TestUndoneIsReadable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := trigger.Undone{At: at, Config: trigger.Config{configMap("foo"): "foo-1"}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), `{"at":"2026-03-01T12:00:00Z","config":{"configmap/foo":"foo-1"}}`; got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	var got trigger.Undone
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read again (-want +got)\n%s", diff)
	}
}
