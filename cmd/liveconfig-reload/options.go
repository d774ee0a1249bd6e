package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/signals"
)

// Defaults.
const (
	defaultTimeout = 5 * time.Second
	defaultRetries = 2
	defaultSettle  = 100 * time.Millisecond
	defaultWait    = time.Minute
	defaultListen  = ":9533"
)

// options are the values of the command line.
type options struct {
	watch   string
	copyTo  string
	request reload.Request
	signal  syscall.Signal
	target  reload.Target
	command []string
	verify  reload.Verification

	timeout, settle, wait time.Duration
	retries               int
	listen, reportFile    string
	allowRemote, atStart  bool
	help, version         bool
	// given counts flags.
	given int
}

// flag is one that the command line may have.
type flag struct {
	// takes are what its values look like.
	takes []string
	set   func(o *options, values []string) error
}

func flags() map[string]flag {
	return map[string]flag{
		"watch":           one("DIR", (*options).setWatch),
		"http":            {[]string{"METHOD", "URL"}, (*options).setHTTP},
		"header":          one("'NAME: VALUE'", (*options).addHeader),
		"expect":          one("200-299", (*options).setExpect),
		"signal":          one("HUP", (*options).setSignal),
		"process":         one("NAME", (*options).setProcess),
		"pid-file":        one("FILE", (*options).setPIDFile),
		"verify":          one("URL", (*options).setVerify),
		"verify-contains": one("TEXT", (*options).addContains),
		"verify-lacks":    one("TEXT", (*options).addLacks),
		"timeout":         one("5s", duration(func(o *options) *time.Duration { return &o.timeout }, time.Millisecond)),
		"settle":          one("100ms", duration(func(o *options) *time.Duration { return &o.settle }, 0)),
		"initial-wait":    one("1m", duration(func(o *options) *time.Duration { return &o.wait }, 0)),
		"retries":         one("2", (*options).setRetries),
		"listen":          one(":9533", (*options).setListen),
		"report-file":     one("FILE", (*options).setReportFile),
		"copy-to":         one("DIR", (*options).setCopyTo),

		"allow-remote": {nil, func(o *options, _ []string) error { o.allowRemote = true; return nil }},
		"at-start":     {nil, func(o *options, _ []string) error { o.atStart = true; return nil }},
		"help":         {nil, func(o *options, _ []string) error { o.help = true; return nil }},
		"version":      {nil, func(o *options, _ []string) error { o.version = true; return nil }},
	}
}

// one returns a flag with one value.
func one(takes string, set func(*options, string) error) flag {
	return flag{[]string{takes}, func(o *options, values []string) error { return set(o, values[0]) }}
}

// commandFlag is followed by a command, with which the command line ends.
const commandFlag = "--command"

// parse returns all mistakes at once.
func parse(args []string) (options, error) {
	o := options{
		timeout: defaultTimeout, retries: defaultRetries, settle: defaultSettle, wait: defaultWait, listen: defaultListen,
	}
	o.request.Header, o.verify.Header = http.Header{}, http.Header{}
	o.target.Proc = "/proc"
	own := args
	if end := slices.Index(args, commandFlag); end >= 0 {
		own, o.command = args[:end], args[end+1:]
		if len(o.command) > 0 && o.command[0] == "--" {
			o.command = o.command[1:]
		}
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
	switch {
	case errors.Join(errs...) != nil:
	case o.copyTo != "" && (o.given > 1 || o.command != nil):
		errs = append(errs, errors.New("--copy-to watches no files and does nothing else: write it alone"))
	case o.copyTo == "":
		errs = append(errs, o.check())
	}
	return o, errors.Join(errs...)
}

// take takes the first argument, with its values, and returns what is left.
func (o *options) take(args []string) (rest []string, err error) {
	if args[0] == "-h" {
		args[0] = "--help"
	}
	long, ok := strings.CutPrefix(args[0], "--")
	if !ok {
		return args[1:], fmt.Errorf("%q: there are flags only; a command comes after %s", args[0], commandFlag)
	}
	name, value, hasValue := strings.Cut(long, "=")
	f, ok := flags()[name]
	rest = args[1:]
	if !ok {
		return rest, fmt.Errorf("--%s: there is no such flag; there are --command, --%s", name,
			strings.Join(slices.Sorted(maps.Keys(flags())), ", --"))
	}
	var values []string
	if hasValue {
		values = []string{value}
	}
	values, rest = f.valuesOf(values, rest)
	if len(values) != len(f.takes) {
		return rest, fmt.Errorf("--%s: want %s", name, strings.TrimSpace("--"+name+" "+strings.Join(f.takes, " ")))
	}
	o.given++
	if err := f.set(o, values); err != nil {
		return rest, fmt.Errorf("--%s %s: %w", name, strings.Join(values, " "), err)
	}
	return rest, nil
}

// valuesOf returns the values of a flag: those after an equals sign, and separate arguments.
func (f flag) valuesOf(values, args []string) (all, rest []string) {
	for len(values) < len(f.takes) && len(args) > 0 {
		if len(f.takes) > 1 && len(values) == 1 && strings.Contains(values[0], " ") {
			break // «METHOD URL» in one argument.
		}
		values, args = append(values, args[0]), args[1:]
	}
	if len(f.takes) > 1 && len(values) == 1 {
		values = strings.Fields(values[0])
	}
	return values, args
}

// check returns what the flags lack together.
func (o *options) check() error {
	var errs []error
	actions := 0
	for _, isGiven := range []bool{o.request.URL != "", o.signal != 0, o.command != nil} {
		if isGiven {
			actions++
		}
	}
	switch {
	case actions != 1:
		errs = append(errs, errors.New("name what is to be done: one of --http METHOD URL, --signal SIGNAL and "+
			"--command COMMAND"))
	case o.command != nil && (len(o.command) == 0 || o.command[0] == ""):
		errs = append(errs, errors.New("--command: there is no command after it"))
	case o.signal != 0 && (o.target.Name == "") == (o.target.PIDFile == ""):
		errs = append(errs, errors.New("--signal: name who gets it, by one of --process NAME and --pid-file FILE"))
	case o.signal == 0 && (o.target.Name != "" || o.target.PIDFile != ""):
		errs = append(errs, errors.New("--process and --pid-file go with --signal"))
	case o.request.URL == "" && o.request.Expect != nil:
		errs = append(errs, errors.New("--expect goes with --http"))
	}
	if o.watch == "" {
		errs = append(errs, errors.New("--watch: name the directory whose files the program reads"))
	}
	if o.verify.URL == "" && len(o.verify.Contains)+len(o.verify.Lacks) > 0 {
		errs = append(errs, errors.New("--verify-contains and --verify-lacks go with --verify URL"))
	}
	if o.request.Expect == nil {
		o.request.Expect = []reload.Expect{{First: 200, Last: 299}}
	}
	return errors.Join(errs...)
}

func (o *options) setWatch(dir string) (err error) {
	if dir == "" {
		return errors.New("must not be empty")
	}
	o.watch, err = filepath.Abs(dir)
	return err
}

func (o *options) setCopyTo(dir string) error {
	if dir == "" {
		return errors.New("must not be empty")
	}
	o.copyTo = dir
	return nil
}

func (o *options) setHTTP(values []string) error {
	o.request.Method, o.request.URL = values[0], values[1]
	if strings.ToUpper(values[0]) != values[0] || strings.Trim(values[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return errors.New("the method comes first, such as POST")
	}
	return reload.CheckURL(values[1])
}

func (o *options) addHeader(text string) error {
	name, value, found := strings.Cut(text, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !found || name == "" || strings.ContainsAny(name+value, "\r\n") || strings.ContainsAny(name, " \t") {
		return errors.New("must be 'NAME: VALUE'")
	}
	o.request.Header.Add(name, value)
	o.verify.Header.Add(name, value)
	return nil
}

// setExpect reads «200-299» or «200,204».
func (o *options) setExpect(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		e := reload.Expect{}
		var errFirst, errLast error
		e.First, errFirst = strconv.Atoi(first)
		e.Last, errLast = strconv.Atoi(last)
		if errors.Join(errFirst, errLast) != nil || e.First < 100 || e.Last > 599 || e.First > e.Last {
			return errors.New("must be status codes from 100 to 599, such as 200-299 or 200,204")
		}
		o.request.Expect = append(o.request.Expect, e)
	}
	return nil
}

func (o *options) setSignal(text string) error {
	if o.signal = signals.Parse(text); o.signal == 0 {
		return errors.New("must be a signal such as HUP or USR2")
	}
	return nil
}

func (o *options) setProcess(name string) error {
	if name == "" {
		return errors.New("must not be empty")
	}
	o.target.Name = name
	return nil
}

func (o *options) setPIDFile(file string) error {
	if file == "" {
		return errors.New("must not be empty")
	}
	o.target.PIDFile = file
	return nil
}

func (o *options) setVerify(url string) error {
	o.verify.URL = url
	return reload.CheckURL(url)
}

func (o *options) addContains(text string) error {
	o.verify.Contains = append(o.verify.Contains, text)
	return notEmpty(text)
}

func (o *options) addLacks(text string) error {
	o.verify.Lacks = append(o.verify.Lacks, text)
	return notEmpty(text)
}

func notEmpty(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func duration(of func(*options) *time.Duration, least time.Duration) func(*options, string) error {
	return func(o *options, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > time.Hour {
			return fmt.Errorf("must be a time from %s to 1h, such as 10s", max(least, 0))
		}
		*of(o) = d
		return nil
	}
}

func (o *options) setRetries(text string) (err error) {
	const most = 100
	if o.retries, err = strconv.Atoi(text); err != nil || o.retries < 0 || o.retries > most {
		return fmt.Errorf("must be a number from 0 to %d", most)
	}
	return nil
}

func (o *options) setListen(address string) error {
	o.listen = address
	if address == "" {
		return nil // Nobody asks.
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return errors.New("must be an address such as :9533 or 127.0.0.1:9533, or empty for none")
	}
	return nil
}

func (o *options) setReportFile(file string) error {
	o.reportFile = file
	return notEmpty(file)
}
