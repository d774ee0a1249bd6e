package rendering_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"go.yaml.in/yaml/v2"
	yaml3 "go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/dotenv"
)

// reader reads a file that was rendered. Names are those that are expected, for readers that have to ask for each.
type reader func(t *testing.T, file []byte, names []string) map[string]string

// readers are the programs and libraries that files are for. All must read the same from a file.
func readers() map[api.Format]map[string]reader {
	return map[api.Format]map[string]reader{
		api.FormatDotenv:     {"sh": readShell("sh"), "bash": readShell("bash"), "liveconfig-exec": readDotenv},
		api.FormatJSON:       {"encoding/json": readJSON, "YAML 1.1": readYAML(yaml.UnmarshalStrict), "YAML 1.2": readYAML(yaml3.Unmarshal)},
		api.FormatYAML:       {"YAML 1.1": readYAML(yaml.UnmarshalStrict), "YAML 1.2": readYAML(yaml3.Unmarshal)},
		api.FormatProperties: {"the rules of Java": readProperties},
	}
}

// readShell has a shell read the file as its own, and print what the variables are. A shell that prints anything else
// has read something that is not an assignment.
func readShell(shell string) reader {
	return func(t *testing.T, file []byte, names []string) map[string]string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "app.env")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		script := ". \"$0\"\n"
		for _, name := range names {
			script += `printf '%s\0' "$` + name + "\"\n"
		}
		cmd := exec.CommandContext(t.Context(), shell, "-euc", script, path)
		cmd.Env = []string{"PATH=/nonexistent", "LC_ALL=C"} // It needs no program, and a value that became a command is reported.
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Fatalf("%s: %v, it says %q of %q", shell, err, complaints.String(), file)
		}
		texts := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		all := map[string]string{}
		for i, name := range names {
			if len(texts) != len(names) {
				t.Fatalf("%s printed %d values, want %d: %q", shell, len(texts), len(names), out)
			}
			all[name] = texts[i]
		}
		return all
	}
}

func readDotenv(t *testing.T, file []byte, _ []string) map[string]string {
	t.Helper()
	variables, err := dotenv.Parse(file)
	if err != nil {
		t.Fatalf("dotenv.Parse(%q): %v", file, err)
	}
	all := map[string]string{}
	for _, v := range variables {
		all[v.Name] = v.Value
	}
	return all
}

func readJSON(t *testing.T, file []byte, _ []string) map[string]string {
	t.Helper()
	var all map[string]string
	if err := json.Unmarshal(file, &all); err != nil {
		t.Fatalf("json.Unmarshal(%q): %v", file, err)
	}
	return all
}

// readYAML wants each name and value to be a string without a tag.
func readYAML(unmarshal func([]byte, any) error) reader {
	return func(t *testing.T, file []byte, _ []string) map[string]string {
		t.Helper()
		var read map[any]any
		if err := unmarshal(file, &read); err != nil {
			t.Fatalf("unmarshal %q: %v", file, err)
		}
		all := map[string]string{}
		for name, value := range read {
			n, isName := name.(string)
			v, isText := value.(string)
			if !isName || !isText {
				t.Errorf("%#v: %#v is not a pair of strings", name, value)
			}
			all[n] = v
		}
		return all
	}
}

// readProperties is what the documentation of java.util.Properties.load describes, for a file in ISO 8859-1.
func readProperties(t *testing.T, file []byte, _ []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, line := range logicalLines(file) {
		end := 0
		for end < len(line) && !strings.ContainsRune("=: \t\f", line[end]) {
			if line[end] == '\\' {
				end++
			}
			end++
		}
		rest := skipBlanks(line[end:])
		if len(rest) > 0 && (rest[0] == '=' || rest[0] == ':') {
			rest = skipBlanks(rest[1:])
		}
		name := unescapeProperty(t, line[:end])
		if _, twice := all[name]; twice {
			t.Errorf("%q is there twice", name)
		}
		all[name] = unescapeProperty(t, rest)
	}
	return all
}

// logicalLines joins lines that end with an odd number of backslashes to the next one, and leaves out comments and blank lines.
func logicalLines(file []byte) [][]rune {
	characters := make([]rune, len(file))
	for i, b := range file { // ISO 8859-1.
		characters[i] = rune(b)
	}
	var lines [][]rune
	var line []rune
	isContinued := false
	natural := slices.Collect(splitLines(characters))
	for _, next := range natural {
		next = skipBlanks(next)
		if !isContinued && (len(next) == 0 || next[0] == '#' || next[0] == '!') {
			continue
		}
		line = append(line, next...)
		backslashes := 0
		for backslashes < len(line) && line[len(line)-1-backslashes] == '\\' {
			backslashes++
		}
		if isContinued = backslashes%2 == 1; isContinued {
			line = line[:len(line)-1]
			continue
		}
		lines, line = append(lines, line), nil
	}
	return lines
}

func splitLines(text []rune) func(func([]rune) bool) {
	return func(yield func([]rune) bool) {
		start := 0
		for i, r := range text {
			if r != '\n' && r != '\r' {
				continue
			}
			if !yield(text[start:i]) {
				return
			}
			start = i + 1
		}
		yield(text[start:])
	}
}

func skipBlanks(text []rune) []rune {
	for len(text) > 0 && strings.ContainsRune(" \t\f", text[0]) {
		text = text[1:]
	}
	return text
}

func unescapeProperty(t *testing.T, text []rune) string {
	t.Helper()
	var units []uint16
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			units = utf16.AppendRune(units, text[i])
			continue
		}
		i++
		switch known := strings.IndexRune("ntrf", text[i]); {
		case known >= 0:
			units = utf16.AppendRune(units, rune("\n\t\r\f"[known]))
		case text[i] == 'u':
			code, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
			if err != nil {
				t.Fatalf("no code in %q: %v", string(text), err)
			}
			units = append(units, uint16(code))
			i += 4
		default:
			units = utf16.AppendRune(units, text[i])
		}
	}
	return string(utf16.Decode(units))
}

// TestThePropertiesReaderReads has what files of ours do not: it must not take everything for right.
func TestThePropertiesReaderReads(t *testing.T) {
	t.Parallel()
	got := readProperties(t, []byte("# c\n ! c\n\n a = b\\\n   c\r\nd:e\nf  g\nh\ni\\=j=\\u0041\\\\\nk\\:\\ l==m\n"), nil)
	want := map[string]string{"a": "bc", "d": "e", "f": "g", "h": "", "i=j": `A\`, "k: l": "=m"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %q, want %q", got, want)
	}
}
