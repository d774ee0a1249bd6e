package validation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestINI(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	tests := map[string]struct {
		text string
		want object
	}{
		"nothing":                           {"", object{}},
		"keys, with both signs":             {"a = 1\nb: 2\n[s]\nc=3=4\r\nd=\n", object{"a": "1", "b": "2", "s": object{"c": "3=4", "d": ""}}},
		"DEFAULT is beside the sections":    {"[s]\na = 1\n[DEFAULT]\nb = 2", object{"s": object{"a": "1"}, "b": "2"}},
		"the last value of a key counts":    {"[s]\na = 1\n[t]\n[s]\na = 2\nb = 3", object{"s": object{"a": "2", "b": "3"}, "t": object{}}},
		"a section comes before a key":      {"s = 1\n[s]\na = 1", object{"s": object{"a": "1"}}},
		"comments":                          {"# a\n; b\n  # c\na = 1 ; x\nb = 2 # y\nc = ;z\n[s] # t\n", object{"a": "1", "b": "2", "c": "", "s": object{}}},
		"signs of comments inside a value":  {"color=#fff\nurl = a;b#c", object{"color": "#fff", "url": "a;b#c"}},
		"quotes":                            {"a = \"1 ; 2\" # x\nb = ' 3 '\nc = \"4\" 5\n'd' = \"\"", object{"a": "1 ; 2", "b": " 3 ", "c": `"4" 5`, "d": ""}},
		"quotes of several lines":           {"a = \"\"\"1\n [2]\n\"\"\"\nb = `3 # 4`\nc = 5", object{"a": "1\n [2]\n", "b": "3 # 4", "c": "5"}},
		"a backslash joins lines":           {"a = 1 \\\n  2 \\\n  3\nb = 4\\", object{"a": "1 2 3", "b": "4"}},
		"nothing is replaced in values":     {"a = %(a)s\nb = ${a} %(c)s %", object{"a": "%(a)s", "b": "${a} %(c)s %"}},
		"keys without a value, as of MySQL": {"[mysqld]\nskip-networking\n!includedir /etc/mysql/conf.d/\nport = 1", object{"mysqld": object{"skip-networking": "", "port": "1"}}},
		"deeper lines go on, as of supervisord": {
			"[program:web]\nenvironment =\n    A=\"1\",\n\n    ; not this\n    B=\"2\" ; nor this\nuser = x", object{"program:web": object{"environment": "A=\"1\",\nB=\"2\"", "user": "x"}},
		},
		"keys that are all deeper, as of git":   {"[core]\n\tbare = true\n\tx = 1\n", object{"core": object{"bare": "true", "x": "1"}}},
		"a bracket in the comment of a section": {"[s] # as in [t]\na = 1", object{"s": object{"a": "1"}}},
		"a file of MySQL": {
			"!include /etc/my.cnf\n[client]\nport=3306\n[mysqld]\nskip-name-resolve # no DNS\nsql_mode=\"STRICT_ALL_TABLES,NO_ZERO_DATE\"\nbind-address = ::1\n  !includedir /etc/mysql/conf.d/\n",
			object{"client": object{"port": "3306"}, "mysqld": object{"skip-name-resolve": "", "sql_mode": "STRICT_ALL_TABLES,NO_ZERO_DATE", "bind-address": "::1\n!includedir /etc/mysql/conf.d/"}},
		},
		"a file of Airflow": {
			"[core]\nsql_alchemy_conn = postgresql://u:p%%40@db/a\nlog_format = [%(asctime)s] {%(file)s:%(line)d}\n# fernet_key =\n\n[celery]\nbroker_transport_options = {\n    \"visibility_timeout\": 21600\n  }\n",
			object{
				"core":   object{"sql_alchemy_conn": "postgresql://u:p%%40@db/a", "log_format": "[%(asctime)s] {%(file)s:%(line)d}"},
				"celery": object{"broker_transport_options": "{\n\"visibility_timeout\": 21600\n}"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, err := parseINI([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(tc.want), documents[0].value); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoINI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"a = 1\n[s": 2, "\n\n= 1": 3, "''=1": 1, "a = 1\nb = `2\n3": 2} {
		_, err := parseINI([]byte(text))
		if e, ok := err.(*syntaxError); !ok || e.line != want { //nolint:errorlint // It is not wrapped.
			t.Errorf("the error of %q is %#v, want one of line %d", text, err, want)
		}
	}
}

// TestINITakesLinearTime also for a value of very many lines.
func TestINITakesLinearTime(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for _, text := range []string{"a =" + strings.Repeat("\n b", 300_000), "a = " + strings.Repeat("\\\n", 500_000), "a = `" + strings.Repeat("\n", 1_000_000)} {
		_, _ = parseINI([]byte(text))
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("three values of a megabyte took %s", took)
	}
}

// FuzzINI: whatever the text, it is read without a panic, an error has a line of the text, and the values are not
// longer than the text.
func FuzzINI(f *testing.F) {
	for _, text := range []string{"[s]\na = 1 ; x", "a = \"\"\"\n", "a = \\\n b", "!include x\nskip-networking", "a: %(a)s\n  b\n\n  # c\n d", "[s] # ]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := parseINI([]byte(text))
		if err != nil {
			if e, ok := err.(*syntaxError); !ok || e.line < 1 || e.line > 1+strings.Count(text, "\n") { //nolint:errorlint // It is not wrapped.
				t.Errorf("the error of %q is %#v", text, err)
			}
			return
		}
		if length := lengthOf(documents[0].value); length > len(text) {
			t.Errorf("the values of %q have %d bytes", text, length)
		}
	})
}

func lengthOf(value any) (length int) {
	if text, isText := value.(string); isText {
		return len(text)
	}
	for _, member := range value.(map[string]any) {
		length += lengthOf(member)
	}
	return length
}
