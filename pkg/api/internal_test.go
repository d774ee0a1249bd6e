package api

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in, want string
	}{
		"only the case differs":            {"CONFIGMAP", "configMap"},
		"one letter is missing":            {"updatePolic", "updatePolicy"},
		"one letter is too many":           {"secrets", "secret"},
		"two letters are swapped":          {"secrte", "secret"},
		"one of a short name's letters":    {"guid", "uid"},
		"another letter in a short name":   {"hid", "uid"},
		"a known name with a word around":  {"configMapName", "configMap"},
		"the longest known name in it":     {"secretDefaultMode", "defaultMode"},
		"nothing known":                    {"reload", ""},
		"a short name that is too far off": {"id", "uid"},
		"two letters off in a short name":  {"pgd", ""},
		"empty":                            {"", ""},
		"one letter":                       {"x", ""},
		"endless":                          {strings.Repeat("secret", 20), ""},
	}
	for name, tc := range tests {
		if got := closest(tc.in, knownAttributes()); got != tc.want {
			t.Errorf("%s: closest(%q) = %q, want %q", name, tc.in, got, tc.want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from, to string
		want     int
	}{
		"nothing to nothing": {"", "", 0},
		"nothing to a text":  {"", "abc", 3},
		"a text to nothing":  {"abc", "", 3},
		"equal":              {"abc", "abc", 0},
		"one changed":        {"abc", "axc", 1},
		"one inserted":       {"abc", "abxc", 1},
		"one deleted":        {"abc", "ac", 1},
		"classic":            {"kitten", "sitting", 3},
	}
	for name, tc := range tests {
		if got := distance(tc.from, tc.to); got != tc.want {
			t.Errorf("%s: distance(%q, %q) = %d, want %d", name, tc.from, tc.to, got, tc.want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in, want string
	}{
		"short texts stay":                 {"abc", "abc"},
		"sixty bytes stay":                 {strings.Repeat("a", 60), strings.Repeat("a", 60)},
		"more are cut":                     {strings.Repeat("a", 61), strings.Repeat("a", 57) + "…"},
		"a character is not cut in two":    {strings.Repeat("日", 30), strings.Repeat("日", 19) + "…"},
		"nor is one that does not fit":     {"a" + strings.Repeat("日", 30), "a" + strings.Repeat("日", 18) + "…"},
		"bytes that are not text are gone": {strings.Repeat("\x80", 70), "…"},
	}
	for name, tc := range tests {
		got := Shorten(tc.in)
		if got != tc.want {
			t.Errorf("%s: Shorten(%q) = %q, want %q", name, tc.in, got, tc.want)
		}
	}
}

func TestReasonIsShortAndPrintable(t *testing.T) {
	t.Parallel()
	got := reason(errors.New("yaml: line 1:\n  found \x1b[2J" + strings.Repeat("é", 200)))
	if want := "line 1: found \ufffd[2Jé"; !strings.HasPrefix(got, want) || len(got) > 200 || !utf8.ValidString(got) {
		t.Errorf("reason = %q, want valid UTF-8 of at most 200 bytes that starts with %q", got, want)
	}
}

func TestNumberTakesEveryTypeOfTheReader(t *testing.T) {
	t.Parallel()
	for _, value := range []any{420, int64(420), uint64(420), float64(420)} {
		if got, ok := number(value); got != 420 || !ok {
			t.Errorf("number(%T) = %v, %v, want 420, true", value, got, ok)
		}
	}
	if got, ok := number("420"); ok {
		t.Errorf("number of a string = %v, true, want false", got)
	}
}
