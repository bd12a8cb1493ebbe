package jute

import (
	"unicode/utf8"
)

// String is a ustring: text or null. Value holds the bytes of the wire as they are, valid UTF-8 or not; the zero String
// is the empty text.
type String struct {
	Value string
	Null  bool
}

// Str is the String of a text.
func Str(s string) String { return String{Value: s} }

// NullString is the null ustring.
func NullString() String { return String{Null: true} }

// Append appends the ustring.
func (s String) Append(dst []byte) []byte {
	if s.Null {
		return AppendInt(dst, -1)
	}
	return AppendString(dst, s.Value)
}

// Echo is what Apache ZooKeeper sends back when it returns a text that it was sent. Java reads standard UTF-8, puts
// U+FFFD for what is none, and writes a code point above U+FFFF as its two surrogates, each as three bytes. Znode paths
// never hold such text (create refuses it); only what is echoed without a check does: the path of sync, ids of ACLs.
func Echo(s string) string {
	if plain(s) {
		return s
	}
	out := make([]byte, 0, len(s)+8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			out = utf8.AppendRune(out, utf8.RuneError)
			n = malformed(s[i:])
		case r > 0xFFFF:
			r -= 0x10000
			out = appendSurrogate(out, 0xD800+r>>10)
			out = appendSurrogate(out, 0xDC00+r&0x3FF)
		default:
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// plain reports whether Echo leaves s alone: valid UTF-8 without code points above U+FFFF.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0xF0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

func appendSurrogate(dst []byte, r rune) []byte {
	return append(dst, byte(0xE0|r>>12), byte(0x80|r>>6&0x3F), byte(0x80|r&0x3F))
}

// malformed is how many bytes at the start of s Java's decoder replaces by one U+FFFD: the longest prefix that could
// have begun a code point, else one byte. A surrogate in three bytes counts as one.
func malformed(s string) int {
	b := s[0]
	var need int
	lo, hi := byte(0x80), byte(0xBF)
	switch {
	case b >= 0xC2 && b <= 0xDF:
		need = 1
	case b >= 0xE0 && b <= 0xEF:
		need = 2
		if b == 0xE0 {
			lo = 0xA0
		}
	case b >= 0xF0 && b <= 0xF4:
		need = 3
		if b == 0xF0 {
			lo = 0x90
		}
		if b == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for ; n <= need && n < len(s) && s[n] >= lo && s[n] <= hi; n++ {
		lo, hi = 0x80, 0xBF
	}
	return n
}
