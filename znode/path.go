package znode

import (
	"strings"
	"unicode/utf8"
)

// The nodes that always exist and can never be deleted.
const (
	RootPath   = "/"
	SystemPath = "/zookeeper"
	QuotaPath  = "/zookeeper/quota"
	ConfigPath = "/zookeeper/config"
)

// ValidPath is the server's full check of a path (semantics 2). What is not valid UTF-8 counts as U+FFFD, which no
// path may hold.
func ValidPath(p string) bool {
	if p == RootPath {
		return true
	}
	if p == "" || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	start := 1 // of the component
	for i := 1; i < len(p); {
		c := p[i]
		switch {
		case c == '/':
			if !validName(p[start:i]) {
				return false
			}
			i++
			start = i
		case c < utf8.RuneSelf:
			if c <= 0x1f || c == 0x7f {
				return false
			}
			i++
		default:
			r, size := utf8.DecodeRuneInString(p[i:])
			if !validRune(r) {
				return false
			}
			i += size
		}
	}
	return validName(p[start:])
}

func validName(name string) bool { return name != "" && name != "." && name != ".." }

// validRune judges what lies beyond ASCII. Code points above U+FFFF are two surrogates to ZooKeeper, hence refused.
func validRune(r rune) bool {
	switch {
	case r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
		return false
	}
	return true
}

// wellFormed is the weak check that creates and deletes begin with.
func wellFormed(p string) bool { return strings.IndexByte(p, '/') >= 0 && strings.IndexByte(p, 0) < 0 }

// reserved says that the path can never be deleted.
func reserved(p string) bool {
	return p == RootPath || p == SystemPath || p == QuotaPath || p == ConfigPath
}

// canonical resolves the alias of the root.
func canonical(p string) string {
	if p == "" {
		return RootPath
	}
	return p
}

// split gives the path of the parent (the text before the last slash, the root's alias resolved) and the node's name.
// The path must hold a slash.
func split(p string) (parent, name string) {
	i := strings.LastIndexByte(p, '/')
	return canonical(p[:i]), p[i+1:]
}

// appendCounter appends a sequential suffix: "%010d" of a signed number.
func appendCounter(dst []byte, n int32) []byte {
	v, width := int64(n), 10
	if v < 0 {
		dst = append(dst, '-')
		v, width = -v, 9
	}
	var digits [20]byte
	i := len(digits)
	for v > 0 || width > 0 {
		i--
		digits[i] = byte('0' + v%10)
		v /= 10
		width--
	}
	return append(dst, digits[i:]...)
}
