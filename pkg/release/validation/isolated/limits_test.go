//go:build linux

package isolated_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// The limits of a process. Both are above those of the process itself, as a machine is busy and a program has pages itself.
const (
	mostMemory = 88 << 20
	mostTime   = 6 * time.Second
)

// ship builds this test binary as programs ship: without C code, and therefore without the race detector.
func ship(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shipped")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests without C code: %v\n%s", err, out)
	}
	return path
}

// order is what a process in the role «measure» checks, and measured what it found.
type (
	order struct {
		Rule settings.Rule
		Data map[string][]byte
	}
	measured struct {
		Problems  []string
		Error     string
		IsRefusal bool
		Memory    int64
		Took      time.Duration
	}
)

// measure checks in a process, and measures it. The kernel counts the memory of the process that starts a process to that of the process,
// so a small program does this, and not the test.
func measure(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	c, err := isolated.New()
	if err != nil {
		return err
	}
	begin := time.Now()
	problems, err := c.Check(testContext(), []settings.Rule{o.Rule}, validation.Content{Data: o.Data})
	m := measured{Took: time.Since(begin)}
	for _, p := range problems {
		m.Problems = append(m.Problems, p.String())
	}
	if err != nil {
		_, m.IsRefusal = errors.AsType[*isolated.LimitError](err)
		m.Error = err.Error()
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return err
	}
	m.Memory = usage.Maxrss << 10
	return json.NewEncoder(out).Encode(m)
}

// play runs a program in a role.
func play(t *testing.T, program, role string, in []byte) []byte {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", role, err, problems.String())
	}
	return out.Bytes()
}

func nested(begin, middle, end string, n int) string {
	return strings.Repeat(begin, n) + middle + strings.Repeat(end, n)
}

// TestBombs: whatever somebody writes, a check ends within its limits, and its edit is refused.
func TestBombs(t *testing.T) {
	t.Parallel()
	const deep, large = 200_000, 1_000_000
	rule := func(format settings.Format) settings.Rule { return settings.Rule{Key: "a", Format: format} }
	withSchema := settings.Rule{Key: "a", Format: settings.JSON, SchemaKey: "s"}
	withBoth := withSchema
	withBoth.CEL = "self.all(x, x.a > 0)"
	cel := func(text string) settings.Rule { return settings.Rule{Key: "a", Format: settings.JSON, CEL: text} }
	var levels, branches strings.Builder
	for i := range 20 {
		fmt.Fprintf(&levels, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9))
		fmt.Fprintf(&branches, "m%d: &m%d {x%d: {<<: *m%d}, y%d: {<<: *m%d}}\n", i+1, i+1, i, i, i, i)
	}
	list := "[" + strings.Repeat("1,", 10_000) + "1]"
	tests := map[string]struct {
		rule          settings.Rule
		value, schema string
		isFine        bool
	}{
		"JSON that is nested":            {rule(settings.JSON), nested("[", "1", "]", deep), "", false},
		"JSON of nothing but brackets":   {rule(settings.JSON), strings.Repeat("[", large), "", false},
		"TOML that is nested":            {rule(settings.TOML), "a = " + nested("[", "1", "]", deep), "", false},
		"TOML with tables in tables":     {rule(settings.TOML), "a = " + nested("{a=", "1", "}", deep), "", false},
		"TOML with dots":                 {rule(settings.TOML), "[" + strings.Repeat("a.", deep) + "a]", "", false},
		"YAML that is nested":            {rule(settings.YAML), nested("[", "1", "]", deep), "", false},
		"YAML of nothing but brackets":   {rule(settings.YAML), strings.Repeat("[", large), "", false},
		"YAML of nothing but braces":     {rule(settings.YAML), strings.Repeat("{", large), "", false},
		"YAML of lists in lists":         {rule(settings.YAML), strings.Repeat("- ", large/2), "", false},
		"YAML of questions":              {rule(settings.YAML), strings.Repeat("? ", large/2), "", false},
		"YAML with aliases of aliases":   {rule(settings.YAML), "a0: &a0 [x, x]\n" + levels.String(), "", false},
		"YAML that merges what merges":   {rule(settings.YAML), "m0: &m0 {x: 1}\n" + branches.String(), "", false},
		"INI that names itself":          {rule(settings.INI), "a = %(a)s\n[s]\nb = %(c)s\nc = %(b)s", "", true},
		"properties that name theirs":    {rule(settings.Properties), "a = ${a}\nb = ${c}\nc = ${b}", "", true},
		"a schema that is nested":        {withSchema, "1", nested(`{"not":`, "{}", "}", deep), false},
		"a schema that refers to parts":  {withSchema, `"a"`, references(), false},
		"a schema that refers to itself": {withSchema, "1", `{"$ref": "#"}`, false},
		"a schema with large repeats":    {withSchema, `"` + strings.Repeat("a", 500_000) + `"`, `{"pattern": "^(((a{0,30}){0,30})*)*b$"}`, false},
		"a schema with many errors":      {withSchema, list, alternatives(), false},
		"CEL that is nested":             {cel(nested("(", "true", ")", 5_000)), "1", "", false},
		"CEL of nothing but brackets":    {cel(strings.Repeat("[", 10_000)), "1", "", false},
		"CEL of denials":                 {cel(strings.Repeat("!", 10_000) + "true"), "1", "", true},
		"CEL that is huge":               {cel(strings.Repeat("true && ", 200_000) + "true"), "1", "", false},
		"CEL with loops":                 {cel("self.all(a, self.all(b, self.all(c, a + b + c > 0)))"), list, "", false},
		"CEL that makes texts":           {cel("self.map(a, self.map(b, string(self))).size() > 0"), list, "", false},
		"a large list of JSON":           {rule(settings.JSON), "[" + strings.Repeat("1,", 450_000) + "1]", "", true},
		"dense JSON of numbers":          {withSchema, "[" + strings.Repeat("1,", 460_000) + "1]", `{"items": {"type": "integer"}}`, true},
		"dense JSON of lists":            {withSchema, "[" + strings.Repeat("[],", 307_000) + "[]]", `{"items": {"type": "array"}}`, true},
		"dense JSON of objects":          {withSchema, "[" + strings.Repeat(`{"a":1},`, 115_000) + "1]", `{"type": "array"}`, true},
		"dense JSON of small objects":    {withSchema, "[" + strings.Repeat("{},", 307_000) + "{}]", `{"type": "array"}`, true},
		"dense JSON for both":            {withBoth, "[" + strings.Repeat(`{"a":1},`, 115_000) + `{"a":2}]`, `{"items": {"type": "object", "properties": {"a": {"maximum": 3}}}}`, true},
		"dense YAML of lists":            {rule(settings.YAML), "[" + strings.Repeat("[],", 200_000) + "[]]", "", true},
		"dense JSON for an expression":   {cel("self.size() > 1"), "[" + strings.Repeat(`{"a":1},`, 115_000) + "1]", "", true},
		"a large object of JSON":         {withSchema, object(900_000), `{"additionalProperties": {"type": "object"}}`, true},
		"a large file of YAML":           {rule(settings.YAML), strings.Repeat("- name: a-rather-long-name\n  value: [1, 2]\n", 20_000), "", true},
		"a large file of TOML":           {rule(settings.TOML), strings.Repeat("[[a]]\nname = \"a rather long name\"\nvalue = [1, 2]\n", 18_000), "", true},
		"a large file of properties":     {rule(settings.Properties), lines("some.key.%d = a value\n", 36_000), "", true},
		"a large file of INI":            {rule(settings.INI), lines("[s%d]\nkey = a value\n", 40_000), "", true},
	}
	program := ship(t)
	one := make(chan struct{}, 1) // Each is measured alone.
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := json.Marshal(order{tc.rule, map[string][]byte{"a": []byte(tc.value), "s": []byte(tc.schema)}})
			if err != nil {
				t.Fatal(err)
			}
			var m measured
			one <- struct{}{}
			for tries := 0; tries == 0 || tries < 5 && strings.Contains(m.Error, "the machine is busy"); tries++ {
				m = measured{}
				if err := json.Unmarshal(play(t, program, "measure", in), &m); err != nil {
					t.Fatal(err)
				}
			}
			<-one
			t.Logf("%.1f MiB, %s, error %q, problems %.100q", float64(m.Memory)/(1<<20), m.Took, m.Error, m.Problems)
			if isFine := len(m.Problems) == 0 && m.Error == ""; isFine != tc.isFine || m.Error != "" && !m.IsRefusal {
				t.Errorf("error = %q, problems = %q, want none: %t", m.Error, m.Problems, tc.isFine)
			}
			if m.Memory > mostMemory || m.Took > mostTime {
				t.Errorf("the process took %d MiB and %s, want at most %d MiB and %s", m.Memory>>20, m.Took, mostMemory>>20, mostTime)
			}
		})
	}
}

func lines(format string, n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, format, i)
	}
	return all.String()
}

func object(size int) string {
	var all strings.Builder
	for i := 0; all.Len() < size; i++ {
		fmt.Fprintf(&all, `,"k%d":{"a":%d,"b":"text"}`, i, i)
	}
	return "{" + all.String()[1:] + "}"
}

// references returns a schema whose check takes until the end of time.
func references() string {
	var text strings.Builder
	text.WriteString(`{"$ref": "#/$defs/d0", "$defs": {"d40": {"type": "string"}`)
	for i := range 40 {
		fmt.Fprintf(&text, `, "d%d": {"not": {"not": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}}}`, i, i+1, i+1)
	}
	return text.String() + "}}"
}

// alternatives returns a schema whose errors take more memory than the machine has.
func alternatives() string {
	return `{"items": {"anyOf": [false` + strings.Repeat(`, {"type": "string", "minLength": 3}`, 3000) + "]}}"
}

// TestConfinement: a process that checks can reach nothing.
func TestConfinement(t *testing.T) {
	t.Parallel()
	program := ship(t)
	secret := filepath.Join(t.TempDir(), "token")
	file, err := os.Create(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.CommandContext(t.Context(), program, "probe", secret)
	cmd.Env, cmd.ExtraFiles = []string{"TOKEN=x"}, []*os.File{file}
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("a process that checks: %v\n%s", err, out)
	}
}

// probe reports what a process can do that it must not.
func probe(file string) (reached []string) {
	if err := isolated.Confine(); err != nil {
		return []string{err.Error()}
	}
	attempts := map[string]func() error{
		"open a file":          func() error { _, err := os.ReadFile(file); return err },
		"make a file":          func() error { _, err := os.Create(file + ".new"); return err },
		"read a directory":     func() error { _, err := os.ReadDir("/"); return err },
		"use an inherited one": func() error { _, err := unix.Write(3, []byte("x")); return err },
		"open a socket":        func() error { _, err := net.Dial("tcp", "127.0.0.1:80"); return err }, //nolint:noctx // It fails at once.
		"open one of Unix":     func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"start a program":      func() error { return exec.Command("/proc/self/exe").Start() }, //nolint:noctx // As before.
		"fork":                 fork,
		"see its parent":       func() error { return unix.Kill(os.Getppid(), 0) },
		"signal its parent":    func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) },
		"trace its parent":     func() error { return unix.PtraceAttach(os.Getppid()) },
		"raise a limit":        func() error { return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 100, Max: 100}) },
		"make a namespace":     func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"share memory by name": func() error { _, err := unix.MemfdCreate("x", 0); return err },
	}
	for what, attempt := range attempts {
		if attempt() == nil {
			reached = append(reached, what)
		}
	}
	done := make(chan struct{})
	go func() { // Another thread is under the filter too.
		runtime.LockOSThread()
		if _, err := os.ReadFile(file); err == nil {
			reached = append(reached, "open a file in another thread")
		}
		close(done)
	}()
	<-done
	return reached
}

func fork() error {
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// TestNoEnvironment: what a process is started with that checks.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("LIVECONFIG_TEST_TOKEN", "hunter2")
	script := filepath.Join(t.TempDir(), "program")
	report := script + ".out"
	text := "#!/bin/sh\n{ /usr/bin/tr '\\0' '\\n' < /proc/$$/environ; ls /proc/$$/fd; } > " + report + "\necho null\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &isolated.Checker{Program: script}
	if _, err := c.Check(t.Context(), []settings.Rule{schema}, validation.Content{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(report)
	if err != nil || strings.Contains(string(got), "=") {
		t.Errorf("the environment and the files of the process are %q, %v; want no environment", got, err)
	}
}
