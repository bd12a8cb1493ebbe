package znode

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseIP reads an address as ZooKeeper does: four decimal parts, or IPv6 without embedded IPv4 and without zone.
func parseIP(s string) (netip.Addr, bool) {
	if strings.IndexByte(s, ':') >= 0 {
		if strings.ContainsAny(s, ".%") {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(s)
		return a, err == nil
	}
	var b [4]byte
	rest := s
	for i := range b {
		part, tail, more := strings.Cut(rest, ".")
		if more == (i == len(b)-1) {
			return netip.Addr{}, false
		}
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil || v < 0 || v > 255 {
			return netip.Addr{}, false
		}
		b[i], rest = byte(v), tail
	}
	return netip.AddrFrom4(b), true
}

// parseIPID reads the id of an ip entry: address, optional "/bits".
func parseIPID(id string) (a netip.Addr, bits int, ok bool) {
	text, suffix, hasBits := strings.Cut(id, "/")
	if a, ok = parseIP(text); !ok {
		return a, 0, false
	}
	bits = a.BitLen()
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
	if !ok || r.BitLen() != a.BitLen() {
		return false
	}
	pa, errA := a.Prefix(bits)
	pr, errR := r.Prefix(bits)
	return errA == nil && errR == nil && pa == pr
}
