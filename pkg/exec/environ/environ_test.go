package environ_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
)

// dir is a directory that was read.
func dir(nameAndData ...string) environ.Content {
	var c environ.Content
	for i := 0; i < len(nameAndData); i += 2 {
		c.Files = append(c.Files, environ.File{Name: nameAndData[i], Data: []byte(nameAndData[i+1])})
	}
	return c
}

func file(data string) environ.Content { return dir("file", data) }

// tooLarge adds a file to a directory that is larger than what is read.
func tooLarge(name string, c environ.Content) environ.Content {
	return failing(name, environ.ErrTooLarge, c)
}

// unreadable adds a file to a directory that may not be read.
func unreadable(name string, c environ.Content) environ.Content { return failing(name, unix.EACCES, c) }

func failing(name string, err error, c environ.Content) environ.Content {
	files, _ := environ.FileErrors(c.Err)
	all := []error{&environ.FileError{Name: name, Err: err}}
	for _, f := range files {
		all = append(all, f)
	}
	c.Err = errors.Join(all...)
	return c
}

func missing() environ.Content { return environ.Content{Missing: true} }

var (
	from     = environ.Source{Kind: environ.Dir, Path: "/d"}
	prefixed = environ.Source{Kind: environ.Dir, Path: "/d", Prefix: "P_"}
	envFile  = environ.Source{Kind: environ.EnvFile, Path: "/f"}
	key      = environ.Source{Kind: environ.Key, Name: "A", Path: "/k"}
	optional = environ.Source{Kind: environ.Key, Name: "A", Path: "/k", Optional: true}
)

// TestBuild is about fault 44, too.
func TestBuild(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		existing []string
		sources  []environ.Source
		contents []environ.Content
		wins     environ.Precedence
		want     []string
		skipped  string
	}{
		"no source leaves everything as it is": {
			existing: []string{"B=1", "A=2", "odd", "B=3"},
			want:     []string{"B=1", "A=2", "odd", "B=3"},
		},
		"each file of a directory is a variable": {
			sources: []environ.Source{from}, contents: []environ.Content{dir("A", "1", "b.c-d", "2\n", ".e", "")},
			want: []string{"A=1", "b.c-d=2\n", ".e="},
		},
		"a prefix stands before each name": {
			sources: []environ.Source{prefixed}, contents: []environ.Content{dir("A", "1", "B", "2")},
			want: []string{"P_A=1", "P_B=2"},
		},
		"what cannot be a name is skipped": {
			sources: []environ.Source{from}, contents: []environ.Content{dir("A", "1", "a=b", "2", "ü", "3", "a\nb", "4", "with blank", "5")},
			want:    []string{"A=1", "with blank=5"},
			skipped: `--from /d: skipped "a=b", "ü", "a\nb": names of variables are printable ASCII without =`,
		},
		"a value with a NUL byte is skipped, and the rest counts": {
			sources: []environ.Source{from}, contents: []environ.Content{dir("A", "secret\x00", "B", "fine", "C", "\x00secret", "a=b", "4")},
			want: []string{"B=fine"},
			skipped: `--from /d: skipped "A", "C": a variable cannot hold a NUL byte: have the program read the file instead
--from /d: skipped "a=b": names of variables are printable ASCII without =`,
		},
		"a value that is too large is skipped, and the rest counts": {
			sources: []environ.Source{prefixed}, contents: []environ.Content{dir("A", strings.Repeat("x", 61), "B", strings.Repeat("x", 60))},
			want:    []string{"P_B=" + strings.Repeat("x", 60)},
			skipped: `--from /d,prefix=P_: skipped "A": P_A takes 66 bytes, and the kernel allows 65 for one variable: have the program read the file instead`,
		},
		"a file that was too large to be read is skipped, and the rest counts": {
			sources: []environ.Source{from}, contents: []environ.Content{tooLarge("BIG", dir("A", "1"))},
			want:    []string{"A=1"},
			skipped: `--from /d: skipped "BIG": it is larger than 8 MiB, the most that is read of a file`,
		},
		"an optional key that no variable can hold is skipped": {
			existing: []string{"A=0"},
			sources:  []environ.Source{optional, optional}, contents: []environ.Content{file("secret\x00"), file(strings.Repeat("x", 63))},
			want: []string{"A=0"},
			skipped: `--key A=/k,optional: skipped "file": a variable cannot hold a NUL byte: have the program read the file instead
--key A=/k,optional: skipped "file": A takes 66 bytes, and the kernel allows 65 for one variable: have the program read the file instead`,
		},
		"another source has what one skips": {
			sources: []environ.Source{key, from}, contents: []environ.Content{file("1"), dir("A", "\x00")},
			want:    []string{"A=1"},
			skipped: `--from /d: skipped "A": a variable cannot hold a NUL byte: have the program read the file instead`,
		},
		"a later source wins, at the place of the first": {
			sources:  []environ.Source{from, key, envFile},
			contents: []environ.Content{dir("A", "1", "B", "1"), file("2"), file("B='3'\nC=4\n")},
			want:     []string{"A=2", "B=3", "C=4"},
		},
		"the other way round": {
			sources:  []environ.Source{envFile, key, from},
			contents: []environ.Content{file("B='3'\nC=4\n"), file("2"), dir("A", "1", "B", "1")},
			want:     []string{"B=1", "C=4", "A=1"},
		},
		"sources win over what exists": {
			existing: []string{"A=0", "Z=0", "A=00"},
			sources:  []environ.Source{from}, contents: []environ.Content{dir("A", "1", "B", "2")},
			want: []string{"Z=0", "A=1", "B=2"},
		},
		"what exists stays if that is wanted": {
			existing: []string{"A=0", "Z=0"},
			sources:  []environ.Source{from}, contents: []environ.Content{dir("A", "1", "B", "2")}, wins: environ.Existing,
			want: []string{"A=0", "Z=0", "B=2"},
		},
		"a missing optional key is left out": {
			existing: []string{"A=0"},
			sources:  []environ.Source{optional}, contents: []environ.Content{missing()},
			want: []string{"A=0"},
		},
		"an optional key that is there counts": {
			sources: []environ.Source{optional}, contents: []environ.Content{file("1")},
			want: []string{"A=1"},
		},
		"an empty directory is not a mistake": {
			sources: []environ.Source{from}, contents: []environ.Content{dir()},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := environ.Build(tt.existing, tt.sources, tt.contents, tt.wins, environ.Limits{One: 65})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), strings.Join(got.Variables, "\n")); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			var skipped []string
			for _, s := range got.Skipped {
				skipped = append(skipped, s.String())
			}
			if diff := cmp.Diff(tt.skipped, strings.Join(skipped, "\n")); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	sources := []environ.Source{prefixed, envFile, key, from, envFile, key, prefixed, key}
	contents := []environ.Content{
		missing(), missing(), missing(),
		unreadable("B", tooLarge("A", dir())), file("A=1\nB=secret $secret\n"), file("\x00"), dir("A", "fine"),
		{Err: errors.New("it is gone")},
	}
	_, err := environ.Build(nil, sources, contents, environ.Sources, environ.Limits{One: 65})
	const want = `--from /d,prefix=P_: there is no such directory; is the volume mounted there?
--env-file /f: there is no such file
--key A=/k: there is no such file; to start without it, append ,optional
--from /d: "B": permission denied
--env-file /f: line 2: something follows the value: write one assignment a line, and put a value with blanks into single quotes
--key A=/k: a variable cannot hold a NUL byte: have the program read the file instead
--key A=/k: it is gone`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestContentsPrintAsSizes(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, dir("name", "secret")); strings.Contains(got, "secret") || !strings.Contains(got, "6 bytes") {
			t.Errorf("%s prints %s, want the size", verb, got)
		}
	}
}

// FuzzIsName holds that names are those that Kubernetes takes.
func FuzzIsName(f *testing.F) {
	for _, name := range []string{"", "A", "a.b-c", "1", " ", "=", "a=b", "ü", "\x7f", "~", "\n", "..", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := environ.IsName(name), len(validation.IsRelaxedEnvVarName(name)) == 0; got != want {
			t.Errorf("IsName(%q) = %t, want %t", name, got, want)
		}
	})
}

func TestDigestOf(t *testing.T) {
	t.Parallel()
	seen := map[environ.Digest]string{}
	for name, contents := range map[string][]environ.Content{
		"nothing":                  nil,
		"an empty directory":       {dir()},
		"a missing one":            {missing()},
		"two empty directories":    {dir(), dir()},
		"a file":                   {dir("A", "1")},
		"another name":             {dir("B", "1")},
		"another content":          {dir("A", "2")},
		"an empty file":            {dir("A", "")},
		"a byte goes to the name":  {dir("A1", "")},
		"two files":                {dir("A", "1", "B", "")},
		"in two directories":       {dir("A", "1"), dir("B", "")},
		"the other way round":      {dir("B", ""), dir("A", "1")},
		"missing, and a directory": {missing(), dir()},
	} {
		digest := environ.DigestOf(contents)
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		if again := environ.DigestOf(contents); again != digest {
			t.Errorf("%s has two digests", name)
		}
		seen[digest] = name
	}
}

// start asks the kernel to start a program that ends at once.
func start(t *testing.T, path string, command, variables []string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Args, cmd.Env = command, variables
	return cmd.Run()
}

func limits(t *testing.T) environ.Limits {
	t.Helper()
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		t.Fatal(err)
	}
	return environ.LimitsFor(stack.Cur, os.Getpagesize())
}

// TestLimitsAreTheKernels tries what is just allowed, and one byte more.
func TestLimitsAreTheKernels(t *testing.T) {
	t.Parallel()
	limits := limits(t)
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	command := []string{path, "argument"}
	full := []string{"LAST="}
	for n := 0; limits.Check(command, append(full, "V="+strings.Repeat("x", 99_998))) == nil; n++ {
		full = append(full, fmt.Sprintf("V%d=%s", n, strings.Repeat("x", 99_990)))
	}
	grow := func(n int) []string { return append([]string{"LAST=" + strings.Repeat("x", n)}, full[1:]...) }
	most := 0
	for step := 1 << 17; step > 0; step /= 2 {
		if limits.Check(command, grow(most+step)) == nil {
			most += step
		}
	}
	tests := map[string]struct {
		fits, tooLarge []string
		part           string
	}{
		"one": {
			[]string{"BIG=" + strings.Repeat("x", limits.One-5)},
			[]string{"BIG=" + strings.Repeat("x", limits.One-4)},
			"BIG takes 131073 bytes, and the kernel allows 131072 for one variable",
		},
		"all": {grow(most), grow(most + 1), "the largest are "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := limits.Check(command, tt.fits); err != nil {
				t.Errorf("Check of what fits = %v", err)
			}
			if err := start(t, path, command, tt.fits); err != nil {
				t.Errorf("the kernel refuses what fits: %v", err)
			}
			if err := limits.Check(command, tt.tooLarge); err == nil || !strings.Contains(err.Error(), tt.part) || strings.Contains(err.Error(), "xx") {
				t.Errorf("Check of what is too large = %v, want %q and no value", err, tt.part)
			}
			if err := start(t, path, command, tt.tooLarge); !errors.Is(err, unix.E2BIG) {
				t.Errorf("the kernel says %v to what is too large, want E2BIG", err)
			}
		})
	}
}

func TestLimitsFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stack uint64
		want  int
	}{
		"the usual":  {8 << 20, 2 << 20},
		"a small":    {64 << 10, 128 << 10},
		"a large":    {1 << 30, 6 << 20},
		"no limit":   {unix.RLIM_INFINITY, 6 << 20},
		"just large": {24 << 20, 6 << 20},
	}
	for name, tt := range tests {
		if got := environ.LimitsFor(tt.stack, 4096); got.All != tt.want || got.One != 128<<10 {
			t.Errorf("LimitsFor of %s stack = %+v, want %d for all", name, got, tt.want)
		}
	}
}
