package znode

import (
	"strconv"
	"strings"
)

// validPrincipal is ZooKeeper's check of an id of the scheme sasl: anything without an @, or a Kerberos name, which is
// service[/host]@realm. Each part may be empty.
func validPrincipal(id string) bool {
	name, realm, found := strings.Cut(id, "@")
	return !found || !strings.ContainsAny(realm, "/@") && strings.Count(name, "/") <= 1
}

// attributeTypes are the keywords that Java's distinguished names know besides object identifiers.
var attributeTypes = map[string]bool{
	"CN": true, "C": true, "L": true, "S": true, "ST": true, "O": true, "OU": true, "T": true, "IP": true, "STREET": true,
	"DC": true, "DNQUALIFIER": true, "DNQ": true, "SURNAME": true, "GIVENNAME": true, "INITIALS": true, "GENERATION": true,
	"EMAIL": true, "EMAILADDRESS": true, "UID": true, "SERIALNUMBER": true,
}

// validDN says whether a text is a distinguished name (RFC 2253, with the looser separators of RFC 1779): type=value
// pairs between commas, semicolons or plus signs. Values may be quoted, escaped, or hexadecimal behind a number sign.
func validDN(id string) bool {
	if id == "" {
		return true // the empty name
	}
	for rest := id; ; {
		typ, after, found := strings.Cut(rest, "=")
		if !found || !validAttributeType(strings.TrimSpace(typ)) {
			return false
		}
		end, ok := attributeValue(after)
		switch {
		case !ok:
			return false
		case end == len(after):
			return true
		}
		rest = after[end+1:]
	}
}

func validAttributeType(typ string) bool {
	upper := strings.ToUpper(typ)
	if attributeTypes[upper] {
		return true
	}
	return validOID(strings.Split(strings.TrimPrefix(upper, "OID."), "."))
}

// validOID: the first arc is 0, 1 or 2, the second at most 39 below the first two.
func validOID(arcs []string) bool {
	for _, a := range arcs {
		if a == "" || strings.Trim(a, "0123456789") != "" {
			return false
		}
	}
	if len(arcs) < 2 {
		return false
	}
	switch second, err := strconv.ParseUint(arcs[1], 10, 64); arcs[0] {
	case "0", "1":
		return err == nil && second <= 39
	case "2":
		return true
	}
	return false
}

// attributeValue gives where a value ends: at a separator or at the end of s.
func attributeValue(s string) (end int, ok bool) {
	start := len(s) - len(strings.TrimLeft(s, " "))
	quoted, closed := false, false
	for i := start; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			n := escaped(s[i+1:])
			if n == 0 {
				return 0, false
			}
			i += n
		case c == '"' && i == start:
			quoted = true
		case c == '"' && quoted && !closed:
			closed = true
		case quoted && !closed:
		case c == ',' || c == ';' || c == '+':
			return i, validHex(s[start:i])
		case closed && c != ' ', c == '"', c == '<', c == '>':
			return 0, false
		}
	}
	return len(s), quoted == closed && validHex(s[start:])
}

// escaped gives the length of what a backslash makes literal: a special character, or two hexadecimal digits; 0: neither.
func escaped(s string) int {
	switch {
	case s != "" && strings.IndexByte(",=\n+<>#;\\\" ", s[0]) >= 0:
		return 1
	case len(s) >= 2 && strings.Trim(s[:2], hexDigits) == "":
		return 2
	}
	return 0
}

const hexDigits = "0123456789abcdefABCDEF"

// validHex judges a value behind a number sign; every other one passes.
func validHex(v string) bool {
	v = strings.TrimRight(v, " ")
	if !strings.HasPrefix(v, "#") {
		return true
	}
	digits := v[1:]
	return digits != "" && len(digits)%2 == 0 && strings.Trim(digits, hexDigits) == ""
}
