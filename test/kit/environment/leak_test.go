package environment

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aJWT begins as the tokens of service accounts do.
const aJWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.e30.c2ln"

// printed is a text in every way that a program may print it by accident.
func printed(text string) map[string]string {
	raw := []byte(text)
	var numbers []int
	for _, b := range raw {
		numbers = append(numbers, int(b))
	}
	return map[string]string{
		"as it is":           text,
		"quoted":             fmt.Sprintf("%q", text),
		"quoted twice":       fmt.Sprintf("%q", fmt.Sprintf("%q", text)),
		"in Go":              fmt.Sprintf("%#v", map[string]string{"key": text}),
		"in JSON":            asJSON(map[string]string{"key": text}),
		"bytes":              fmt.Sprintf("%d", raw),
		"bytes in a map":     fmt.Sprintf("%v", map[string][]byte{"key": raw}),
		"bytes in Go":        fmt.Sprintf("%#v", raw),
		"bytes in JSON":      asJSON(map[string][]byte{"key": raw}),
		"numbers in JSON":    asJSON(numbers),
		"numbers in a list":  strings.ReplaceAll(fmt.Sprintf("%d", raw), " ", ", "),
		"runes":              fmt.Sprintf("%q", []rune(text)),
		"hex":                fmt.Sprintf("%x", text),
		"hex in upper case":  fmt.Sprintf("%X", text),
		"hex by bytes":       fmt.Sprintf("% x", text),
		"upper hex by bytes": fmt.Sprintf("% X", text),
		"escaped bytes":      escaped(raw, `\x%02x`),
		"base64":             base64.StdEncoding.EncodeToString(raw),
		"base64 after one":   base64.StdEncoding.EncodeToString(append([]byte("?"), raw...)),
		"base64 after two":   base64.RawURLEncoding.EncodeToString(append([]byte("??"), raw...)),
		"in a URL":           "?key=" + url.QueryEscape(text),
		"percent":            strings.ReplaceAll(fmt.Sprintf(" % X", text), " ", "%"),
	}
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	return fmt.Sprint(string(data), err)
}

func TestEveryFormOfAValueAndOfATokenIsFound(t *testing.T) {
	t.Parallel()
	value := Marked("blue\n\xff")
	texts := map[string]string{"cut behind": fmt.Sprintf("%.20q", value), "cut before": value[len(value)/2:], "empty": Marked("")}
	for form, text := range printed(value) {
		texts["value "+form] = text
	}
	for form, text := range printed(aJWT) {
		texts["token "+form] = text
	}
	for name, text := range texts {
		line := "time=now msg=\"got " + text + "\" code=OK\n"
		if err := Leak([]byte(line)); err == nil {
			t.Errorf("%s: nothing was found in %q", name, line)
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "state", "volumes", "a.json"), line, 0o600)
		if err := leaksBelow(dir, filepath.Join(dir, "state", "tokens")); err == nil {
			t.Errorf("%s: nothing was found in a file with %q", name, line)
		}
	}
}

func TestWhatIsNoLeakIsNotFound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "m4rk", "eyJh", Mark[1:], tokenStart[1:], fmt.Sprintf("%d", []byte(Mark[1:])),
		`time=2026-01-01T00:00:00Z level=INFO msg="Call served" method=NodePublishVolume volumeID=csi-0123456789abcdef`,
	} {
		if err := Leak([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMarksComeOff(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "red", "\x00\xff", Marked("red"), Mark} {
		if got := Unmarked(Marked(value)); got != value {
			t.Errorf("Unmarked(Marked(%q)) = %q, want what was marked", value, got)
		}
	}
	for _, text := range []string{"", "red", Mark, Mark + "red", "red" + Mark} {
		if got := Unmarked(text); got != text {
			t.Errorf("Unmarked(%q) = %q, want it left alone", text, got)
		}
	}
}

// TestWhereALeakIsFound prepares a node's directory with one thing in it.
func TestWhereALeakIsFound(t *testing.T) {
	t.Parallel()
	value := Marked("blue")
	tests := map[string]struct {
		prepare func(t *testing.T, dir string)
		leaks   bool
	}{
		"nothing":                 {file("driver.log", "Serving\n", 0o600), false},
		"the log":                 {file("driver.log", value, 0o600), true},
		"a record":                {file("state/volumes/a", value, 0o600), true},
		"a hidden file":           {file("kubelet/.tmp/.a", value, 0o600), true},
		"the name of a file":      {file("state/"+value, "", 0o600), true},
		"the name of a directory": {file("state/"+value+"/a", "", 0o600), true},
		"a link": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink(value, dir+"/link"); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a token in the log":    {file("driver.log", aJWT, 0o600), true},
		"a token in a record":   {file("state/volumes/a", aJWT, 0o600), true},
		"a token in its place":  {file("state/tokens/a", aJWT, 0o600), false},
		"a value there":         {file("state/tokens/a", value, 0o600), true},
		"a token for the group": {file("state/tokens/a", aJWT, 0o640), true},
		"a token below that":    {file("state/tokens/b/a", aJWT, 0o600), true},
		"a token in an open place": {func(t *testing.T, dir string) {
			t.Helper()
			write(t, dir+"/state/tokens/a", aJWT, 0o600)
			if err := os.Chmod(dir+"/state/tokens", 0o750); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a program": {file("liveconfig-driver", tokenStart, 0o755), false},
	}
	for name, tt := range tests {
		dir := t.TempDir()
		tt.prepare(t, dir)
		if err := leaksBelow(dir, filepath.Join(dir, "state", "tokens")); (err != nil) != tt.leaks {
			t.Errorf("%s: got %v, want a leak: %v", name, err, tt.leaks)
		}
	}
	if err := leaksBelow(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a directory that is not there was looked through")
	}
}

// file returns what writes one file.
func file(path, text string, mode os.FileMode) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		write(t, filepath.Join(dir, path), text, mode)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
