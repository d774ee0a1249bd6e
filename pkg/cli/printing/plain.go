package printing

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain is a text as a terminal can have it: manifests and objects of others may hold signs that
// move the cursor or turn text around. Lines stay lines.
func Plain(text string) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		sign, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case sign == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		case sign == '\n', sign == '\t', unicode.IsPrint(sign):
			b.WriteRune(sign)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(sign), "'"))
		}
		at += size
	}
	return b.String()
}

// PlainLine is a text that is one line of what a terminal gets.
func PlainLine(text string) string { return strings.ReplaceAll(Plain(text), "\n", `\n`) }
