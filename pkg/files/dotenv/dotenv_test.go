package dotenv_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/files/dotenv"
)

// accepted are files, and what they assign.
func accepted() map[string]struct {
	file string
	want []dotenv.Variable
} {
	type all = []dotenv.Variable
	return map[string]struct {
		file string
		want []dotenv.Variable
	}{
		"an empty file":                            {"", nil},
		"blank lines and comments":                 {"\n \t\n# a=b\n  # 'c\n", nil},
		"a value in single quotes":                 {"A='x y'\n", all{{"A", "x y"}}},
		"no line feed at the end":                  {"A='x'", all{{"A", "x"}}},
		"a comment at the end without a line feed": {"A=1\n# c", all{{"A", "1"}}},
		"a plain word":                             {"A=x-1.2_/:@%+,=y\n", all{{"A", "x-1.2_/:@%+,=y"}}},
		"nothing":                                  {"A=\nB=''\nC=\"\"\nD= # c\nE= \n", all{{"A", ""}, {"B", ""}, {"C", ""}, {"D", ""}, {"E", ""}}},
		"a single quote":                           {`A='it'\''s'`, all{{"A", "it's"}}},
		"expansions in single quotes":              {"A='$B `c` \\n \"'", all{{"A", "$B `c` \\n \""}}},
		"double quotes":                            {`A="x 'y' \" \\ \$ ` + "\\`" + `"`, all{{"A", "x 'y' \" \\ $ `"}}},
		"a value of several lines":                 {"A='x\n\n y'\nB=\"1\n2\"\n", all{{"A", "x\n\n y"}, {"B", "1\n2"}}},
		"parts that stand together":                {`A=a'b c'"d e"\ f`, all{{"A", "ab cd e f"}}},
		"escapes outside quotes":                   {`A=\$\'\"\#\~`, all{{"A", `$'"#~`}}},
		"export":                                   {"export A='x'\n export\tB=2\n", all{{"A", "x"}, {"B", "2"}}},
		"a variable called export":                 {"export=1\n", all{{"export", "1"}}},
		"a comment behind a value":                 {"A='x' # c\nB=1\t#'\n", all{{"A", "x"}, {"B", "1"}}},
		"a hash in quotes":                         {"A='# x'\n", all{{"A", "# x"}}},
		"the same name twice":                      {"A=1\nA=2\n", all{{"A", "1"}, {"A", "2"}}},
		"blanks at both ends":                      {"  A=1 \t\n", all{{"A", "1"}}},
		"a carriage return in quotes":              {"A='x\r\ny'\n", all{{"A", "x\r\ny"}}},
		"a carriage return in a comment":           {"# x\r\nA=1\n", all{{"A", "1"}}},
		"bytes that are not text":                  {"A='\x01\x7f\x81\x88\xff\xc3\xa4'\n", all{{"A", "\x01\x7f\x81\x88\xff\xc3\xa4"}}},
		"names of all kinds":                       {"_a=1\nA_9=2\nz=3\n", all{{"_a", "1"}, {"A_9", "2"}, {"z", "3"}}},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range accepted() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dotenv.Parse([]byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		line int
		part string
	}{
		"no assignment":                           {"A=1\n\nsecret\n", 3, "write NAME='value'"},
		"a blank before the equals sign":          {"secret =1\n", 1, "blank before the ="},
		"a blank behind the equals sign":          {"A= secret\n", 1, "blank behind the ="},
		"a name with a digit first":               {"1secret=1\n", 1, "begin with a digit"},
		"a name with a dot":                       {"secret.a=1\n", 1, "write NAME='value'"},
		"no name":                                 {"=secret\n", 1, "write NAME='value'"},
		"export without an assignment":            {"export secret\n", 1, "write NAME='value'"},
		"export without a name":                   {"export ='secret'\n", 1, "write NAME='value'"},
		"two assignments in a line":               {"A=1 B=secret\n", 1, "one assignment a line"},
		"two words":                               {"A=1 secret\n", 1, "one assignment a line"},
		"a single quote that is not closed":       {"A=1\nB='secret\n\n", 2, `'\''`},
		"a double quote that is not closed":       {"A=1\nB=\"secret\n\n", 2, `\"`},
		"a double quote that ends in a backslash": {"A=\"secret\\", 1, `write \\`},
		"a variable":                              {"A=$secret\n", 1, `write \$`},
		"a variable in double quotes":             {"A=\"x\n$secret\"\n", 2, `write \$`},
		"a command":                               {"A=`secret`\n", 1, "write \\`"},
		"an escape that readers differ about":     {"A=\"secret\\n\"\n", 1, "readers of such files differ"},
		"a line that goes on":                     {"A=secret\\\nB=1\n", 1, "single quotes"},
		"a backslash at the end":                  {"A=secret\\", 1, "single quotes"},
		"a tilde":                                 {"A=~secret\n", 1, "must be quoted"},
		"a semicolon":                             {"A=1;secret\n", 1, "must be quoted"},
		"a hash in a word":                        {"A=1#secret\n", 1, "must be quoted"},
		"a letter that is not ASCII":              {"A=ä-secret\n", 1, "must be quoted"},
		"a line feed of Windows":                  {"A=secret\r\n", 1, "line feeds alone"},
		"a line feed of Windows behind quotes":    {"A='secret'\r\n", 1, "line feeds alone"},
		"a NUL byte in single quotes":             {"A='secret\x00'\n", 1, "NUL byte"},
		"a NUL byte in double quotes":             {"A=\"secret\x00\"\n", 1, "NUL byte"},
		"a NUL byte in a word":                    {"A=secret\x00\n", 1, "NUL byte"},
		"a byte order mark":                       {"\xef\xbb\xbfA=secret\n", 1, "byte order mark"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dotenv.Parse([]byte(tt.file))
			var mistake *dotenv.SyntaxError
			if !errors.As(err, &mistake) {
				t.Fatalf("Parse = %v, %v, want a SyntaxError", got, err)
			}
			if mistake.Line != tt.line || !strings.Contains(mistake.Problem, tt.part) {
				t.Errorf("mistake = %v, want one in line %d with %q", mistake, tt.line, tt.part)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows what stands in the file: %v", err)
			}
		})
	}
}

// nasty are values that are easily written wrong.
func nasty() []string {
	every := make([]byte, 0, 255)
	for c := 1; c < 256; c++ {
		every = append(every, byte(c))
	}
	return []string{
		"", " ", "'", "''", "'''", `"`, `\`, `\\`, `\'`, `'\''`, "$", "$A", "$(id)", "`id`", "${A}", "!", "!!", "~", "#", "a#b", " #",
		"\n", "a\nb", "\na\n", "\r\n", "\t", "=", "a=b", "*", "?", "[a]", "{a,b}", ";", "&", "|", "<", ">", "(", ")", "%s", "\\n", "\\0",
		"ü", "\xff\xfe", "-n", string(every), strings.Repeat("x'", 10_000),
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	var file []byte
	for _, value := range nasty() {
		before := len(file)
		file = dotenv.Append(file, "A", []byte(value))
		if got, want := len(file)-before, dotenv.Size("A", []byte(value)); got != want {
			t.Errorf("%q takes %d bytes, but Size = %d", value, got, want)
		}
	}
	got, err := dotenv.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range nasty() {
		if got[i].Value != value {
			t.Errorf("%q is read as %q", value, got[i].Value)
		}
	}
}

// inShell returns what a shell makes of a file: the last value of each name.
func inShell(t testing.TB, file []byte, names []string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "set -a -e; . "+path+"; /usr/bin/env -0")
	cmd.Env, cmd.Stderr = []string{}, &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("sh: %v\n%s\nfile: %q", err, stderr.String(), file)
	}
	values := map[string]string{}
	for variable := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if name, value, _ := strings.Cut(variable, "="); slices.Contains(names, name) {
			values[name] = value
		}
	}
	return values
}

// asInShell checks that a file that Parse takes means the same to a shell.
func asInShell(t testing.TB, file []byte) {
	t.Helper()
	variables, err := dotenv.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	var names []string
	for _, v := range variables {
		want[v.Name] = v.Value
		names = append(names, v.Name)
	}
	if diff := cmp.Diff(inShell(t, file, names), want); diff != "" {
		t.Errorf("file %q (-sh +Parse):\n%s", file, diff)
	}
}

// TestShell has a real shell read what Parse takes, and what Append writes.
func TestShell(t *testing.T) {
	t.Parallel()
	for name, tt := range accepted() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asInShell(t, []byte(tt.file))
		})
	}
	t.Run("what Append writes", func(t *testing.T) {
		t.Parallel()
		var file []byte
		for i, value := range nasty() {
			file = dotenv.Append(file, "V"+strings.Repeat("_", i), []byte(value))
		}
		asInShell(t, file)
	})
}

func FuzzParse(f *testing.F) {
	for _, tt := range accepted() {
		f.Add([]byte(tt.file))
	}
	for _, more := range []string{"A=$x", "A=\"\\n\"", "a b", "A='", "A=1;B=2", "A=\x00", "A=a\\\nb"} {
		f.Add([]byte(more))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		variables, err := dotenv.Parse(file)
		if err != nil {
			if variables != nil {
				t.Error("variables beside an error")
			}
			return
		}
		var again []byte
		for _, v := range variables {
			again = dotenv.Append(again, v.Name, []byte(v.Value))
		}
		got, err := dotenv.Parse(again)
		if diff := cmp.Diff(variables, got); err != nil || diff != "" {
			t.Errorf("written and read again, %v (-want +got):\n%s", err, diff)
		}
		shells := []string{"OPTIND", "_", "PWD", "OLDPWD", "LINENO", "PPID", "IFS"} // A shell uses these names itself.
		if !slices.ContainsFunc(variables, func(v dotenv.Variable) bool { return slices.Contains(shells, v.Name) }) {
			asInShell(t, file)
		}
	})
}
