// Package rendering writes names and their values as one file in a format. A reader of the format
// gets exactly these names and values. The package is pure: equal names and values make equal
// bytes.
//
// The package escapes by hand, and uses no library of a format, for three reasons. [Size] counts
// the bytes of a file before the driver takes memory for it. Readers of YAML 1.1 and of YAML 1.2
// read the same from a file. Java's properties have no library. For 256 values of 1 KiB, Render
// allocates a third of the bytes of encoding/json in about the same time, and a seventh of the
// bytes of yaml.v3 in less than half of the time (BenchmarkRender).
//
// It does not know where names and values come from, or where the file goes.
package rendering

import (
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/dotenv"
)

// Why a format cannot hold a name with its value. The texts fit any number of them.
var (
	// ErrName means that the format does not allow a name.
	ErrName = errors.New(`not the name of a variable (letters, digits and "_", no digit first)`)
	// ErrNUL means that a value has a NUL byte, which no variable can hold.
	ErrNUL = errors.New("a value with a NUL byte")
	// ErrText means that a name or value is not UTF-8, which the format requires.
	ErrText = errors.New("a value that is not text in UTF-8")
)

const (
	// FrameSize is how many bytes a file has, at most, besides the [Size] of its names.
	FrameSize = len("{\n}\n")
	// LeastBetween is how many bytes any format has besides a name and its value.
	LeastBetween = len("=\n")
)

// Size returns how many bytes a name with its value takes in a file, or ErrName, ErrNUL or ErrText.
// It is one too many for the last name in JSON.
func Size(format api.Format, name string, value []byte) (int, error) {
	switch {
	case !format.Takes(name):
		return 0, ErrName
	case format != api.FormatDotenv && (!utf8.ValidString(name) || !utf8.Valid(value)):
		return 0, ErrText
	case format == api.FormatDotenv && slices.Contains(value, 0):
		return 0, ErrNUL
	}
	switch format {
	case api.FormatDotenv:
		return dotenv.Size(name, value), nil
	case api.FormatJSON:
		return measure([]byte(name), appendQuoted) + measure(value, appendQuoted) + len(`  "": "",`+"\n"), nil
	case api.FormatYAML:
		return measure([]byte(name), appendQuoted) + measure(value, appendQuoted) + len(`"": ""`+"\n"), nil
	default:
		return measure([]byte(name), appendPropertyName) + measure(value, appendProperty) + indent(value) + len("=\n"), nil
	}
}

// Render returns the file of all names with their values, sorted by name. [Size] must have returned
// no error for any.
func Render(format api.Format, values map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(values))
	file := make([]byte, 0, size(format, values))
	switch format {
	case api.FormatDotenv:
		for _, name := range names {
			file = dotenv.Append(file, name, values[name])
		}
		return file
	case api.FormatJSON:
		return appendJSON(file, names, values)
	case api.FormatYAML:
		return appendYAML(file, names, values)
	default:
		for _, name := range names {
			file = append(write(file, []byte(name), appendPropertyName), '=')
			if indent(values[name]) > 0 {
				file = append(file, '\\')
			}
			file = append(write(file, values[name], appendProperty), '\n')
		}
		return file
	}
}

// size returns how many bytes the file has, or one more.
func size(format api.Format, values map[string][]byte) int {
	total := FrameSize
	for name, value := range values {
		n, _ := Size(format, name, value) // The caller has checked it.
		total += n
	}
	return total
}

func appendJSON(file []byte, names []string, values map[string][]byte) []byte {
	if len(names) == 0 {
		return append(file, "{}\n"...)
	}
	separator := "{\n"
	for _, name := range names {
		file = append(file, separator+"  "...)
		file = appendPair(file, name, values[name])
		separator = ",\n"
	}
	return append(file, "\n}\n"...)
}

func appendYAML(file []byte, names []string, values map[string][]byte) []byte {
	if len(names) == 0 {
		return append(file, "{}\n"...)
	}
	for _, name := range names {
		file = append(appendPair(file, name, values[name]), '\n')
	}
	return file
}

// appendPair writes what is the same in JSON and YAML: two texts in double quotes.
func appendPair(file []byte, name string, value []byte) []byte {
	file = append(file, '"')
	file = write(file, []byte(name), appendQuoted)
	file = append(file, `": "`...)
	file = write(file, value, appendQuoted)
	return append(file, '"')
}
