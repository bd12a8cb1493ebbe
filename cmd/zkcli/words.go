package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// words splits a line of the shell. Blanks separate; a word that begins with ' or " goes to the next such quote and may hold
// blanks, nothing in it is special; $'...' is such a word with the escapes \n \r \t \0 \\ \' \" \xHH \uHHHH, for data
// that cannot be typed. A quote inside a word that does not begin with it is an ordinary character. All but $'...' is as
// in ZooKeeper's zkCli.
func words(line string) ([]string, error) {
	var out []string
	for {
		line = strings.TrimLeft(line, " \t\r\n\v\f")
		switch {
		case line == "":
			return out, nil
		case line[0] == '\'' || line[0] == '"':
			end := strings.IndexByte(line[1:], line[0])
			if end < 0 {
				return nil, usagef("no closing %c", line[0])
			}
			out = append(out, line[1:1+end])
			line = line[end+2:]
		case strings.HasPrefix(line, "$'"):
			word, rest, err := unescape(line[2:])
			if err != nil {
				return nil, err
			}
			out = append(out, word)
			line = rest
		default:
			end := strings.IndexAny(line, " \t\r\n\v\f")
			if end < 0 {
				end = len(line)
			}
			out = append(out, line[:end])
			line = line[end:]
		}
	}
}

// unescape reads the inside of $'...' and gives what follows the closing quote.
func unescape(s string) (word, rest string, err error) {
	var b []byte
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\'':
			return string(b), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", usagef("no closing '")
			}
			switch s[i] {
			case 'n':
				b = append(b, '\n')
			case 'r':
				b = append(b, '\r')
			case 't':
				b = append(b, '\t')
			case '0':
				b = append(b, 0)
			case '\\', '\'', '"':
				b = append(b, s[i])
			case 'x', 'u':
				n := 2
				if s[i] == 'u' {
					n = 4
				}
				if i+n >= len(s) {
					return "", "", usagef(`\%c wants %d hex digits`, s[i], n)
				}
				v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 16)
				if err != nil {
					return "", "", usagef(`\%c wants %d hex digits`, s[i], n)
				}
				if n == 2 {
					b = append(b, byte(v))
				} else {
					b = utf8.AppendRune(b, rune(v))
				}
				i += n
			default:
				return "", "", usagef(`unknown escape \%c`, s[i])
			}
		default:
			b = append(b, s[i])
		}
	}
	return "", "", usagef("no closing '")
}
