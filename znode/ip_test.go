package znode

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The standard library reads the same IPv6 addresses.
func TestParseIPv6(t *testing.T) {
	check := func(t rapidOrTest, s string) {
		want, err := netip.ParseAddr(s)
		valid := err == nil && want.Zone() == "" && !strings.Contains(s, ".")
		got, ok := parseIPv6(s)
		if ok != valid || ok && got.bytes != want.As16() {
			t.Fatalf("%q: %v %v; %v %v", s, got, ok, want, err)
		}
	}
	for _, s := range []string{
		"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8",
		"1::2::3", ":::", ":1", "1:", "::1:", "12345::", "g::", "-1::", "+1::", "0x1::", "fe80::1%eth0", "::1.2.3.4", ":",
		"1:2:3:4:5:6:7", "::00001", "ABCD::ef",
	} {
		check(t, s)
	}
	part := rapid.SampledFrom([]string{":", ":", "::", "0", "1", "ffff", "a", "abcde", "g", "+1"})
	rapid.Check(t, func(t *rapid.T) { check(t, ":"+strings.Join(rapid.SliceOfN(part, 0, 18).Draw(t, "parts"), "")) })
}

func TestMasks(t *testing.T) {
	for _, remote := range []string{"10.1.2.3", "255.255.255.255", "fe80::1234", "::"} {
		addr := netip.MustParseAddr(remote)
		for _, id := range []string{"10.1.2.129", "11.0.0.0", "fe80:8000::", "::", "ff00::"} {
			for bits := range 128 {
				prefix, err := netip.MustParseAddr(id).Prefix(bits)
				want := err == nil && prefix.Contains(addr)
				if got := ipMatches(fmt.Sprintf("%s/%d", id, bits), remote); got != want {
					t.Errorf("%s/%d, %s: %v", id, bits, remote, got)
				}
			}
		}
	}
}
