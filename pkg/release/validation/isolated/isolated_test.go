package isolated_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case isolated.Argument:
		err = isolated.Main(os.Stdin, os.Stdout)
	case "measure":
		err = measure(os.Stdin, os.Stdout)
	case "probe":
		if reached := probe(os.Args[2]); len(reached) > 0 {
			err = fmt.Errorf("it can: %q", reached)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testContext is for programs, which have no test.
func testContext() context.Context { return context.Background() }

func check(t *testing.T, rule settings.Rule, data map[string]string) ([]validation.Problem, error) {
	t.Helper()
	return checkWithin(t, isolated.MostTime, rule, data)
}

func checkWithin(t *testing.T, most time.Duration, rule settings.Rule, data map[string]string) ([]validation.Problem, error) {
	t.Helper()
	c, err := isolated.New()
	if err != nil {
		t.Fatal(err)
	}
	content := validation.Content{Data: map[string][]byte{}, Now: time.Now()}
	for key, value := range data {
		content.Data[key] = []byte(value)
	}
	return isolated.CheckWithin(c, t.Context(), most, []settings.Rule{rule}, content)
}

var schema = settings.Rule{Key: "a", Format: settings.JSON, SchemaKey: "s"}

func TestCheck(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{`{"max": 3}`: 0, `{"max": 30}`: 1} {
		problems, err := check(t, schema, map[string]string{"a": value, "s": `{"properties": {"max": {"maximum": 10}}}`})
		if err != nil || len(problems) != want {
			t.Errorf("the problems of %s = %v, %v; want %d", value, problems, err, want)
		}
	}
}

// TestLimits: a schema whose check takes until the end of time, and one whose errors take more memory
// than the machine has.
func TestLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schema, value, want string
		most                time.Duration
	}{
		"time": {references(), `"a"`, "the rules take more than 5s to check", isolated.MostTime},
		// On a busy machine the time would be over before all memory is used.
		"memory": {alternatives(), "[" + strings.Repeat("1,", 10000) + "1]", "the rules take more than 64 MiB to check", time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for range 5 { // On a busy machine the time is over before the process has worked.
				_, err = checkWithin(t, tc.most, schema, map[string]string{"a": tc.value, "s": tc.schema})
				if err == nil || !strings.Contains(err.Error(), "the machine is busy") {
					break
				}
			}
			if limit, ok := errors.AsType[*isolated.LimitError](err); !ok || !strings.HasPrefix(limit.Error(), tc.want) {
				t.Errorf("error = %v, want %s", err, tc.want)
			}
		})
	}
}

// TestDeathOf: a process that had no more memory may have worked for as long as the limit of time.
func TestDeathOf(t *testing.T) {
	t.Parallel()
	const long, short = isolated.MostTime, time.Second
	tests := map[string]struct {
		script string
		worked time.Duration
		want   string
	}{
		"an ordinary error":             {"exit 1", long, "in a separate process: exit status 1"},
		"no more memory":                {"exit 2", short, "64 MiB"},
		"no more memory after all time": {"exit 77", long, "64 MiB"},
		"the limit of time":             {"kill -KILL $$", long, "5s"},
		"ended for want of memory":      {"kill -KILL $$", short, "64 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exit, ok := errors.AsType[*exec.ExitError](exec.CommandContext(t.Context(), "sh", "-c", tc.script).Run())
			if !ok {
				t.Fatal("the script did not fail")
			}
			if err := isolated.DeathOf(exit, tc.worked); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestAnEndedContext(t *testing.T) {
	t.Parallel()
	c, err := isolated.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Check(ctx, []settings.Rule{schema}, validation.Content{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

func TestRefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	if err := isolated.Serve(strings.NewReader("{"), &strings.Builder{}); err == nil {
		t.Error("half a request is taken for one")
	}
}
