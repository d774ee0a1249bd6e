package environment

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mark stands in every value that a test puts into a ConfigMap or a Secret, and nowhere else. Where it turns up outside of
// the volumes, a value got there. [Marked] puts it around a value.
const Mark = "m4rkOfAValue7q"

// What a leak is called.
const (
	aValue = "a value"
	aToken = "a token"
)

// tokenStart is how the API server's tokens begin: {"alg": in base64.
const tokenStart = "eyJhbGciOi" //nolint:gosec // It is the beginning of every token, and none.

// Marked returns a value as an object holds it: between two marks, so that neither end of it can be printed unseen.
func Marked(value string) string { return Mark + value + Mark }

// Unmarked returns what [Marked] was given. Any other text is returned as it is.
func Unmarked(text string) string {
	if value, ok := strings.CutPrefix(text, Mark); ok {
		if value, ok := strings.CutSuffix(value, Mark); ok {
			return value
		}
	}
	return text
}

// Leak returns an error when a text holds a marked value or a token of a service account, in whatever way a program may
// have printed it.
func Leak(text []byte) error {
	return errors.Join(find(text, aValue, Mark), find(text, aToken, tokenStart))
}

// find looks for every form of a secret and says where the first one is.
func find(text []byte, what, secret string) error {
	forms := formsOf(secret)
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		if at := bytes.Index(text, []byte(forms[form])); at >= 0 {
			const around = 80
			return fmt.Errorf("it holds %s (%s) at byte %d: %q", what, form, at,
				text[max(0, at-around):min(len(text), at+len(forms[form])+around)])
		}
	}
	return nil
}

// formsOf returns what fmt, encoding/json, encoding/hex, encoding/base64 and a URL make of a text, wherever in a longer
// one it stands. It consists of letters and digits, so that quoting leaves it alone.
func formsOf(secret string) map[string]string {
	raw := []byte(secret)
	numbers := strings.Trim(fmt.Sprintf("%d", raw), "[]")
	forms := map[string]string{
		"plain":                secret,
		"bytes as numbers":     numbers,
		"bytes as JSON":        strings.ReplaceAll(numbers, " ", ","),
		"bytes in a list":      strings.ReplaceAll(numbers, " ", ", "),
		"bytes in Go":          strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", raw), "[]byte{"), "}"),
		"hex":                  hex.EncodeToString(raw),
		"upper-case hex":       fmt.Sprintf("%X", raw),
		"hex by bytes":         fmt.Sprintf("% x", raw),
		"upper hex by bytes":   fmt.Sprintf("% X", raw),
		"escaped bytes":        escaped(raw, `\x%02x`),
		"octal bytes":          escaped(raw, `\%03o`),
		"escaped characters":   escaped(raw, `\u%04x`),
		"escaped for URLs":     escaped(raw, "%%%02x"),
		"URL in upper case":    escaped(raw, "%%%02X"),
		"characters in quotes": strings.TrimSuffix(escaped(raw, "'%c' "), " "),
	}
	for shift := range 3 {
		text := base64Of(raw, shift)
		forms[fmt.Sprintf("base64, shifted by %d", shift)] = text
		forms[fmt.Sprintf("base64 for URLs, shifted by %d", shift)] = strings.NewReplacer("+", "-", "/", "_").Replace(text)
	}
	return forms
}

// escaped prints each byte in the format.
func escaped(raw []byte, format string) string {
	var text strings.Builder
	for _, b := range raw {
		fmt.Fprintf(&text, format, b)
	}
	return text.String()
}

// base64Of returns the characters that raw alone decides when it stands behind that many bytes more than a multiple of
// three.
func base64Of(raw []byte, shift int) string {
	text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), raw...))
	const bits = 6 // Of a character.
	first, last := (shift*8+bits-1)/bits, (shift+len(raw))*8/bits
	return text[first:last]
}

// leaksBelow looks into every file below dir but programs, at its name, and at what links say. Whatever is mounted below
// dir is left out: these are the volumes. A file right in tokens may hold a token if nobody else can read it.
func leaksBelow(dir, tokens string) error {
	device, err := deviceOf(dir)
	if err != nil {
		return err
	}
	var found []error
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			if d, err := deviceOf(path); err == nil && d != device {
				return fs.SkipDir
			}
		}
		if err == nil && path != dir {
			err = leakIn(path, entry, tokens)
		}
		if !errors.Is(err, fs.ErrNotExist) { // The driver may be at work.
			found = append(found, err)
		}
		return nil
	})
	return errors.Join(append(found, err)...)
}

func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st.Dev, nil
}

func leakIn(path string, entry fs.DirEntry, tokens string) error {
	if err := Leak([]byte(filepath.Base(path))); err != nil {
		return fmt.Errorf("the name of %s: %w", path, err)
	}
	if entry.Type() == fs.ModeSymlink {
		to, err := os.Readlink(path)
		return errors.Join(err, about(path, Leak([]byte(to))))
	}
	if !entry.Type().IsRegular() {
		return nil
	}
	info, err := entry.Info()
	if err != nil || info.Mode()&0o111 != 0 {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if filepath.Dir(path) == tokens && info.Mode() == 0o600 && isPrivate(tokens) {
		return about(path, find(text, aValue, Mark))
	}
	return about(path, Leak(text))
}

// isPrivate reports whether nobody but its owner can look into a directory.
func isPrivate(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.Mode() == fs.ModeDir|0o700
}

func about(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}
