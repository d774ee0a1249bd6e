package rendering

import (
	"unicode/utf16"
	"unicode/utf8"
)

// An escape writes what stands in a file for the first character of a text, and returns how many
// bytes that character has. The text is not empty, and valid for the format.
type escape func(file, text []byte) (longer []byte, width int)

// write appends a text.
func write(file, text []byte, by escape) []byte {
	for {
		run := plainRun(text)
		file = append(file, text[:run]...)
		text = text[run:]
		if len(text) == 0 {
			return file
		}
		longer, width := by(file, text)
		file, text = longer, text[width:]
	}
}

// measure returns how many bytes write would append.
func measure(text []byte, by escape) int {
	total := 0
	var scratch []byte // Made only for texts that need it, which few do.
	for {
		run := plainRun(text)
		total += run
		text = text[run:]
		if len(text) == 0 {
			return total
		}
		if scratch == nil {
			scratch = make([]byte, 0, longestEscape)
		}
		written, width := by(scratch, text)
		total += len(written)
		text = text[width:]
	}
}

// plainRun returns how many bytes in front of a text stand for themselves in every format: most
// bytes of most texts.
func plainRun(text []byte) int {
	for i, c := range text {
		switch {
		case c <= ' ', c > '~', c == '\'', c == '"', c == '\\', c == '=', c == ':', c == '#', c == '!':
			return i
		}
	}
	return len(text)
}

// longestEscape is how many bytes stand for one character, at most: a surrogate pair of Java's.
const longestEscape = len(`\uD83D\uDE00`)

// appendQuoted is for the double quotes of JSON and of YAML, with escapes that mean the same to
// both. YAML takes more characters for line breaks, or for none that can be printed: they are
// escaped, which JSON does not mind.
func appendQuoted(file, text []byte) ([]byte, int) {
	const (
		del, lastControl                  = '\u007f', '\u009f' // NEL among them.
		lineSeparator, paragraphSeparator = '\u2028', '\u2029'
		byteOrderMark, firstNoncharacter  = '\ufeff', '\ufffe'
		lastNoncharacter                  = '\uffff'
	)
	r, width := utf8.DecodeRune(text)
	switch {
	case r == '"', r == '\\':
		return append(file, '\\', text[0]), width
	case r == '\n':
		return append(file, `\n`...), width
	case r == '\r':
		return append(file, `\r`...), width
	case r == '\t':
		return append(file, `\t`...), width
	case r < ' ', del <= r && r <= lastControl, r == lineSeparator, r == paragraphSeparator, r == byteOrderMark,
		firstNoncharacter <= r && r <= lastNoncharacter:
		return appendCode(file, r), width
	}
	return append(file, text[:width]...), width
}

// appendProperty is for the values of Java's properties, but for a blank in front: see [indent].
// All that is not ASCII is escaped, since some readers take the file for ISO 8859-1 and some for
// UTF-8.
func appendProperty(file, text []byte) ([]byte, int) {
	r, width := utf8.DecodeRune(text)
	switch r {
	case '\\', '=', ':', '#', '!':
		return append(file, '\\', text[0]), width
	case '\n':
		return append(file, `\n`...), width
	case '\r':
		return append(file, `\r`...), width
	case '\t':
		return append(file, `\t`...), width
	case '\f':
		return append(file, `\f`...), width
	}
	switch {
	case ' ' <= r && r <= '~':
		return append(file, text[0]), width
	case r <= '\uffff':
		return appendCode(file, r), width
	}
	high, low := utf16.EncodeRune(r)
	return appendCode(appendCode(file, high), low), width
}

// appendPropertyName is for the names of Java's properties, which a blank would end.
func appendPropertyName(file, text []byte) ([]byte, int) {
	if text[0] == ' ' {
		return append(file, `\ `...), 1
	}
	return appendProperty(file, text)
}

// indent returns how many backslashes have to stand before the value of a property: a reader skips
// blanks in front.
func indent(value []byte) int {
	if len(value) > 0 && value[0] == ' ' {
		return 1
	}
	return 0
}

// appendCode writes a character of up to 16 bits as \uXXXX.
func appendCode(file []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(file, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
