package rendering

import (
	"bytes"
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// QuotedSize returns how many bytes a value takes when it is quoted for a place in a file, or
// ErrNUL or ErrText if the place cannot hold it.
func QuotedSize(q api.Quote, value []byte) (int, error) {
	switch q {
	case api.QuoteJSON, api.QuoteYAML:
		if !utf8.Valid(value) {
			return 0, ErrText
		}
		return measure(value, appendQuoted) + len(`""`), nil
	case api.QuoteProperties:
		if !utf8.Valid(value) {
			return 0, ErrText
		}
		return measure(value, appendProperty) + indent(value), nil
	case api.QuoteShell:
		if slices.Contains(value, 0) {
			return 0, ErrNUL
		}
		return len(value) + bytes.Count(value, []byte("'"))*(len(shellQuote)-1) + len(`''`), nil
	case api.QuoteURL:
		return measureURL(value), nil
	case api.QuoteBase64:
		return base64.StdEncoding.EncodedLen(len(value)), nil
	case api.QuoteNone:
	}
	return len(value), nil
}

// shellQuote is a single quote within single quotes.
const shellQuote = `'\''`

// AppendQuoted appends a value, quoted for a place in a file. [QuotedSize] must have returned no
// error for it.
func AppendQuoted(file []byte, q api.Quote, value []byte) []byte {
	switch q {
	case api.QuoteJSON, api.QuoteYAML:
		return append(write(append(file, '"'), value, appendQuoted), '"')
	case api.QuoteProperties:
		if indent(value) > 0 {
			file = append(file, '\\')
		}
		return write(file, value, appendProperty)
	case api.QuoteShell:
		return append(append(append(file, '\''), bytes.ReplaceAll(value, []byte("'"), []byte(shellQuote))...), '\'')
	case api.QuoteURL:
		return appendURL(file, value)
	case api.QuoteBase64:
		return base64.StdEncoding.AppendEncode(file, value)
	case api.QuoteNone:
	}
	return append(file, value...)
}

// isUnreserved reports whether RFC 3986 has a byte stand for itself in each part of a URL.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' ||
		c == '~'
}

func measureURL(value []byte) int {
	size := 0
	for _, c := range value {
		if size++; !isUnreserved(c) {
			size += len("XX")
		}
	}
	return size
}

func appendURL(file, value []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range value {
		if isUnreserved(c) {
			file = append(file, c)
		} else {
			file = append(file, '%', digits[c>>4], digits[c&15])
		}
	}
	return file
}
