package template_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestPointAndBack takes lists that people could write, in many more ways than anybody would think of.
func TestPointAndBack(t *testing.T) {
	t.Parallel()
	lists := 150
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		lists = 1000
	}
	valid := 0
	for seed := range uint64(lists) {
		w := writer{Rand: rand.New(rand.NewPCG(seed, 0))}
		text := w.list()
		if _, err := api.Parse(map[string]string{api.KeySources: text}, ours.Namespace); err == nil {
			valid++
		}
		checkThereAndBack(t, long(text))
		if t.Failed() {
			t.Fatalf("it was list %d, %q", seed, text)
		}
	}
	if valid < lists*3/4 {
		t.Errorf("%d of %d lists are valid, want three quarters", valid, lists)
	}
}

// writer writes the long form at random. It uses no escapes.
type writer struct {
	*rand.Rand
	lineEnd string
}

func (w *writer) list() string {
	w.lineEnd = w.one("\n", "\r\n", "\r", "\u0085", "\u2028")
	head := w.one("", "", "\ufeff", "---"+w.end(), "%YAML 1.1"+w.lineEnd+"---"+w.end(), w.end())
	entries := make([]string, 1+w.IntN(4))
	for i := range entries {
		entries[i] = w.entry(i)
	}
	list := head + "[" + strings.Join(entries, w.blank()+","+w.blank()) + w.one("", ",") + w.blank() + "]"
	if strings.HasPrefix(head, "\ufeff") || w.IntN(2) == 0 {
		return list + w.one("", w.end(), w.lineEnd+"..."+w.end())
	}
	return head + w.lines(len(entries)) + w.one("", w.end())
}

// lines is the list with an element in each line, or in several.
func (w *writer) lines(n int) string {
	var b strings.Builder
	for i := range n {
		kind := w.one("configMap", "secret")
		switch w.IntN(4) {
		case 0:
			b.WriteString("-" + w.one(" ", "\t", "   ") + w.entry(i) + w.end())
		case 1:
			fmt.Fprintf(&b, "- %s:%s    name:%s%s%s", kind, w.end(), w.one(" ", w.end()+"     "), w.name(), w.end())
		case 2:
			fmt.Fprintf(&b, "- %s:%s    optional: true%s    name: %s%s      %s%s", kind, w.end(), w.end(),
				w.one("|-", ">-", "!!str |-", "|1-", ">7-")[:2], w.one("", " # foo")+w.lineEnd, w.one("foo", "tls"), w.lineEnd)
		default:
			fmt.Fprintf(&b, "- ? %s%s  : ? 'name'%s    : %s%s", kind, w.end(), w.end(), w.name(), w.end())
		}
	}
	return b.String()
}

// entry is an element in brackets.
func (w *writer) entry(i int) string {
	if w.IntN(8) == 0 {
		return w.one("{}", "null", "{configMap: ~}", "{secret: null }")
	}
	name := w.field("name") + w.name()
	fields := []string{name}
	if w.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("items: [{key: %s, path: %s%d}]", w.one("foo", "'é'", "name"), w.one("foo", "日本/😀"), i))
	}
	if w.IntN(3) == 0 {
		fields = append(fields, "namespace: "+w.one("default", "foo", `"tls"`))
	}
	if w.IntN(3) == 0 {
		fields = append(fields, w.field("optional")+"true")
	}
	w.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return "{" + w.blank() + w.field(w.one("configMap", "secret")) + "{" + strings.Join(fields, ","+w.blank()) + w.blank() + "}" + w.blank() + "}"
}

// field is the name of a field, up to the value.
func (w *writer) field(name string) string {
	return w.one(name+":"+w.one(" ", "\t", " "+w.end()+"  "), `"`+name+`":`+w.blank(), "'"+name+"' : ")
}

// name is the name of an object.
func (w *writer) name() string {
	text := w.one("foo", "tls", "foo.example-1", "name", "configmap", "x")
	number := w.one("1e", "2", "0x1", "1.5", "12e")
	return w.one(
		text, text, text, "1e", "12e",
		`"`+text+`"`, "'"+text+"'", `"`+number+`"`, "'"+number+"'", "'"+number+"'",
		"!!str "+text, "!!str '"+number+"'", "!!str 2", "!!str 0x1", "!!str  "+number, "! "+number, "!<tag:yaml.org,2002:str> "+number,
	)
}

// end ends a line, and may leave others empty.
func (w *writer) end() string {
	return w.one("", " ", " # foo", " # {name: foo}", "\t# é 日本", " #") + w.lineEnd + w.one("", "", "# name: foo"+w.lineEnd, w.lineEnd)
}

// blank is what may stand between brackets and their contents.
func (w *writer) blank() string {
	return w.one("", "", " ", "  ", "\t", w.end()+" ")
}

func (w *writer) one(of ...string) string { return of[w.IntN(len(of))] }
