package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// property is one logical line of a Java properties file.
type property struct {
	line       int // 1-based, of its first natural line
	key, value string
}

// parseProperties reads the Java properties format (java.util.Properties): separators =, : or white space, comments
// # and !, backslash escapes, line continuation. Keys and values are trimmed, as ZooKeeper does.
func parseProperties(text string) []property {
	var out []property
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		start := i + 1
		logical := strings.TrimLeft(lines[i], " \t\f")
		if logical == "" || logical[0] == '#' || logical[0] == '!' {
			continue
		}
		for continues(logical) {
			logical = logical[:len(logical)-1]
			if i+1 >= len(lines) {
				break
			}
			i++
			logical += strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(logical)
		out = append(out, property{line: start, key: strings.TrimSpace(unescape(key)), value: strings.TrimSpace(unescape(value))})
	}
	return out
}

// continues reports whether a line ends in an odd number of backslashes.
func continues(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// splitProperty cuts at the first unescaped separator.
func splitProperty(s string) (key, value string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '=', ':', ' ', '\t', '\f':
			rest := strings.TrimLeft(s[i:], " \t\f")
			if rest != "" && (rest[0] == '=' || rest[0] == ':') {
				rest = rest[1:]
			}
			return s[:i], strings.TrimLeft(rest, " \t\f")
		}
	}
	return s, ""
}

// unescape resolves \n \t \r \f \uXXXX; any other escaped character stands for itself.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+4 < len(s) {
				if v, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil {
					b.Write(utf8.AppendRune(nil, rune(v)))
					i += 4
					continue
				}
			}
			b.WriteByte('u')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
