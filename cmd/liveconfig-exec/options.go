package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/signals"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/supervise"
)

const defaultGrace = 30 * time.Second

// options are the values of the command line.
type options struct {
	sources       []environ.Source
	wins          environ.Precedence
	onChange      supervise.Action
	signal        syscall.Signal
	stop          syscall.Signal // Zero if the command line does not have it.
	grace         time.Duration
	readyFile     string // Empty for no file.
	readyAfter    time.Duration
	command       []string
	copyTo        string
	help, version bool
	// given counts the flags.
	given int
}

// flag is one that the command line may have.
type flag struct {
	// takes shows what its value looks like; empty: it has none.
	takes string
	set   func(o *options, value string) error
}

func flags() map[string]flag {
	return map[string]flag{
		"from":      {"DIR[,prefix=P_]", (*options).addDir},
		"env-file":  {"FILE", (*options).addEnvFile},
		"key":       {"NAME=FILE[,optional]", (*options).addKey},
		"on-change": {"restart, signal:HUP, exit or ignore", (*options).setOnChange},
		"grace":     {"a time such as 30s", (*options).setGrace},
		"copy-to":   {"DIR", (*options).setCopyTo},

		"ready-file":  {"PATH[,after=9s]", (*options).setReadyFile},
		"stop-signal": {"a signal such as QUIT", (*options).setStopSignal},

		"keep":    {"", func(o *options, _ string) error { o.wins = environ.Existing; return nil }},
		"help":    {"", func(o *options, _ string) error { o.help = true; return nil }},
		"version": {"", func(o *options, _ string) error { o.version = true; return nil }},
	}
}

// parse returns all mistakes at once.
func parse(args []string) (options, error) {
	o := options{grace: defaultGrace}
	own := args
	if end := slices.Index(args, "--"); end >= 0 {
		own, o.command = args[:end], args[end+1:]
	}
	var errs []error
	for len(own) > 0 {
		rest, err := o.take(own)
		errs = append(errs, err)
		own = rest
	}
	if o.help || o.version {
		return o, nil
	}
	if len(errs) == 0 || errors.Join(errs...) == nil {
		errs = append(errs, o.checkCommand())
	}
	return o, errors.Join(errs...)
}

func (o *options) checkCommand() error {
	switch {
	case o.copyTo != "" && (o.given > 1 || o.command != nil):
		return errors.New("--copy-to starts no command and reads no files: write it alone")
	case o.copyTo != "":
		return nil
	case len(o.command) == 0 || o.command[0] == "":
		return errors.New("there is no command: write it at the end, after --")
	case o.readyFile != "" && o.onChange == supervise.Ignore:
		return errors.New("--ready-file needs --on-change=restart, signal or exit: otherwise the program replaces " +
			"liveconfig-exec, and nothing keeps the file")
	}
	return nil
}

// take takes the first argument, with its value, and returns what is left.
func (o *options) take(args []string) (rest []string, err error) {
	if args[0] == "-h" {
		args[0] = "--help"
	}
	long, ok := strings.CutPrefix(args[0], "--")
	if !ok {
		return args[1:], unexpected(args[0])
	}
	name, value, hasValue := strings.Cut(long, "=")
	f, ok := flags()[name]
	rest = args[1:]
	switch {
	case !ok:
		if len(rest) > 0 && !hasValue && !strings.HasPrefix(rest[0], "-") { // It may be the flag's.
			rest = rest[1:]
		}
		return rest, unknown(name)
	case f.takes == "" && hasValue:
		return rest, fmt.Errorf("--%s takes no value", name)
	case f.takes != "" && !hasValue && len(rest) == 0:
		return rest, fmt.Errorf("--%s lacks its value: %s", name, f.takes)
	case f.takes != "" && !hasValue:
		value, rest = rest[0], rest[1:]
	}
	o.given++
	if err := f.set(o, value); err != nil {
		return rest, fmt.Errorf("%s: %w", strings.TrimSpace("--"+name+" "+value), err)
	}
	return rest, nil
}

func unexpected(arg string) error {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if _, ok := flags()[name]; ok && strings.HasPrefix(arg, "-") {
		return fmt.Errorf("unknown flag %s: write --%s", arg, name)
	}
	return fmt.Errorf("%q is not a flag: write the command at the end, after --", arg)
}

func unknown(name string) error {
	for _, known := range slices.Sorted(maps.Keys(flags())) {
		if isNear(name, known) {
			return fmt.Errorf("unknown flag --%s: did you mean --%s?", name, known)
		}
	}
	return fmt.Errorf("unknown flag --%s: liveconfig-exec --help lists the flags", name)
}

// isNear reports whether b equals a with one letter more, less, different, or with two that changed
// places, or goes on as a does.
func isNear(a, b string) bool {
	if len(a) > 2 && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)) {
		return true
	}
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	a, b = a[start:], b[start:]
	end := 0
	for end < min(len(a), len(b)) && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	a, b = a[:len(a)-end], b[:len(b)-end]
	return max(len(a), len(b)) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

func (o *options) addDir(value string) error {
	path, option, hasOption := strings.Cut(value, ",")
	prefix, isPrefix := strings.CutPrefix(option, "prefix=")
	switch {
	case path == "":
		return errors.New("the directory is missing")
	case hasOption && !isPrefix:
		return fmt.Errorf("unknown option %q: there is prefix=P_ alone", option)
	case hasOption && !environ.IsName(prefix):
		return errors.New("the prefix is not a beginning of a name: that is printable ASCII without =")
	}
	o.sources = append(o.sources, environ.Source{Kind: environ.Dir, Path: path, Prefix: prefix})
	return nil
}

func (o *options) addEnvFile(path string) error {
	if path == "" {
		return errors.New("the file is missing")
	}
	o.sources = append(o.sources, environ.Source{Kind: environ.EnvFile, Path: path})
	return nil
}

func (o *options) addKey(value string) error {
	name, file, _ := strings.Cut(value, "=")
	path, option, hasOption := strings.Cut(file, ",")
	switch {
	case path == "":
		return errors.New("write NAME=FILE")
	case !environ.IsName(name):
		return errors.New("the name is not one of a variable: that is printable ASCII without =")
	case hasOption && option != "optional":
		return fmt.Errorf("unknown option %q: there is «optional» alone", option)
	}
	o.sources = append(o.sources, environ.Source{Kind: environ.Key, Name: name, Path: path, Optional: hasOption})
	return nil
}

func (o *options) setCopyTo(dir string) error {
	if dir == "" {
		return errors.New("the directory is missing")
	}
	o.copyTo = dir
	return nil
}

func (o *options) setReadyFile(value string) error {
	path, option, hasOption := strings.Cut(value, ",")
	text, isAfter := strings.CutPrefix(option, "after=")
	after, err := time.ParseDuration(text)
	switch {
	case path == "":
		return errors.New("the file is missing")
	case hasOption && !isAfter:
		return fmt.Errorf("unknown option %q: there is after=9s alone", option)
	case hasOption && (err != nil || after < 0):
		return errors.New("write a time such as after=9s")
	}
	o.readyFile, o.readyAfter = path, after
	return nil
}

func (o *options) setGrace(value string) error {
	grace, err := time.ParseDuration(value)
	if err != nil || grace < 0 {
		return errors.New("write a time such as 30s or 1m30s")
	}
	o.grace = grace
	return nil
}

func (o *options) setOnChange(value string) error {
	name, isSignal := strings.CutPrefix(value, "signal:")
	action, ok := map[string]supervise.Action{
		"ignore": supervise.Ignore, "restart": supervise.Restart, "exit": supervise.Exit,
	}[value]
	switch {
	case isSignal:
		return o.setSignal(name)
	case !ok:
		return errors.New("write restart, signal:HUP, exit or ignore")
	}
	o.onChange = action
	return nil
}

func (o *options) setSignal(name string) error {
	number := signals.Parse(name)
	if number == 0 {
		return errors.New("there is no such signal: write one such as signal:HUP or signal:USR1")
	}
	if number == unix.SIGKILL || number == unix.SIGSTOP {
		return errors.New("no program hears this signal; to end the program, write restart or exit")
	}
	o.onChange, o.signal = supervise.Signal, number
	return nil
}

func (o *options) setStopSignal(name string) error {
	number := signals.Parse(name)
	switch {
	case number == 0:
		return errors.New("there is no such signal: write one such as TERM, QUIT or RTMIN+3")
	case !supervise.IsForwarded(number):
		return errors.New("this signal cannot be passed on to a program: write one such as TERM, QUIT or RTMIN+3")
	}
	o.stop = number
	return nil
}
