package znode

import (
	"strconv"
	"strings"
)

// address is an IPv4 (size 4) or IPv6 (size 16) address; bytes beyond size are zero.
type address struct {
	bytes [16]byte
	size  int
}

// masked keeps the first bits of an address.
func (a address) masked(bits int) address {
	for i := range a.bytes {
		switch keep := bits - 8*i; {
		case keep <= 0:
			a.bytes[i] = 0
		case keep < 8:
			a.bytes[i] &= 0xff << (8 - keep)
		}
	}
	return a
}

// parseIP reads an address as ZooKeeper does.
func parseIP(s string) (address, bool) {
	if strings.IndexByte(s, ':') >= 0 {
		return parseIPv6(s)
	}
	parts := strings.SplitN(s, ".", 5)
	if len(parts) != 4 {
		return address{}, false
	}
	a := address{size: 4}
	for i, part := range parts {
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil || v < 0 || v > 255 {
			return address{}, false
		}
		a.bytes[i] = byte(v)
	}
	return a, true
}

// parseIPv6 reads eight groups, or fewer around one "::"; no embedded IPv4, no zone.
func parseIPv6(s string) (address, bool) {
	a := address{size: 16}
	head, tail, shortened := strings.Cut(s, "::")
	before, ok := parseGroups(head)
	if !ok {
		return address{}, false
	}
	after, ok := parseGroups(tail)
	if n := len(before) + len(after); !ok || shortened && n > 14 || !shortened && n != 16 {
		return address{}, false
	}
	copy(a.bytes[:], before)
	copy(a.bytes[16-len(after):], after)
	return a, true
}

// parseGroups reads up to eight groups of one to four hexadecimal digits; nothing is no group.
func parseGroups(s string) (b []byte, ok bool) {
	if s == "" {
		return nil, true
	}
	for _, group := range strings.SplitN(s, ":", 9) {
		v, err := strconv.ParseUint(group, 16, 16)
		if err != nil || len(group) > 4 {
			return nil, false
		}
		b = append(b, byte(v>>8), byte(v))
	}
	return b, len(b) <= 16
}

// parseIPID reads the id of an ip entry: address, optional "/bits".
func parseIPID(id string) (a address, bits int, ok bool) {
	text, suffix, hasBits := strings.Cut(id, "/")
	if a, ok = parseIP(text); !ok {
		return a, 0, false
	}
	bits = 8 * a.size
	if hasBits {
		v, err := strconv.ParseInt(suffix, 10, 32)
		if err != nil || v < 0 || v > int64(bits) {
			return a, 0, false
		}
		bits = int(v)
	}
	return a, bits, true
}

func validIPID(id string) bool {
	_, _, ok := parseIPID(id)
	return ok
}

// ipMatches masks both sides; different families never match.
func ipMatches(id, remote string) bool {
	a, bits, ok := parseIPID(id)
	if !ok {
		return false
	}
	r, ok := parseIP(remote)
	return ok && r.size == a.size && r.masked(bits) == a.masked(bits)
}
