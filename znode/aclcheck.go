package znode

import "strings"

// The schemes that this server knows.
const (
	schemeWorld  = "world"
	schemeAuth   = "auth"
	schemeDigest = "digest"
	schemeIP     = "ip"
	schemeSuper  = "super"
	schemeX509   = "x509"
	schemeSASL   = "sasl"
	idAnyone     = "anyone"
)

// maxExpanded bounds, in bytes, what the scheme auth may add to a transaction: a client chooses how many entries its lists
// have, how many lists a multi has, and how many identities its connection. A transaction without a bound would be logged
// and then fit through no link (I13).
const maxExpanded = 8 << 20

// openACL is world:anyone with all permissions, the list of nearly every node. Never changed.
var openACL = []ACL{{Perms: PermAll, Scheme: schemeWorld, ID: idAnyone}}

func isOpen(acl []ACL) bool { return len(acl) == 1 && acl[0] == openACL[0] }

// allowed evaluates a list (semantics 10): any entry that grants a wanted permission suffices, none denies.
func (o *Options) allowed(acl []ACL, perms int32, auth []AuthID) bool {
	if o.SkipACL || len(acl) == 0 {
		return true
	}
	for i := range acl {
		if acl[i].Perms&perms != 0 && acl[i].Scheme == schemeWorld && acl[i].ID == idAnyone {
			return true
		}
	}
	for i := range auth {
		if auth[i].Scheme == schemeSuper {
			return true
		}
	}
	for i := range acl {
		if acl[i].Perms&perms != 0 && o.matchesAny(&acl[i], auth) {
			return true
		}
	}
	return false
}

func (o *Options) matchesAny(a *ACL, auth []AuthID) bool {
	for i := range auth {
		if auth[i].Scheme != a.Scheme {
			continue
		}
		switch a.Scheme {
		case schemeDigest:
			if auth[i].ID == a.ID {
				return true
			}
		case schemeIP:
			if ipMatches(a.ID, auth[i].ID) {
				return true
			}
		case schemeX509:
			if o.X509 && (auth[i].ID == a.ID || o.X509SuperUser != "" && auth[i].ID == o.X509SuperUser) {
				return true
			}
		case schemeSASL:
			if o.SASL && (auth[i].ID == a.ID || auth[i].ID == schemeSuper || o.AnySASLUser != "" && a.ID == o.AnySASLUser) {
				return true
			}
		}
	}
	return false
}

// fixACL checks a list that a client supplied and resolves the scheme auth, for which the transaction has room, in bytes. The
// result may be the list itself.
func (o *Options) fixACL(acl []ACL, auth []AuthID, room *int) ([]ACL, Code) {
	if len(acl) == 0 {
		return nil, InvalidACL
	}
	if len(acl) == 1 && acl[0].Scheme == schemeWorld && acl[0].ID == idAnyone {
		return acl, OK
	}
	unique := withoutDuplicates(acl)
	fixed := make([]ACL, 0, len(unique))
	for _, a := range unique {
		switch {
		case a.SchemeNull:
			return nil, InvalidACL
		case a.Scheme == schemeAuth:
			n := len(fixed)
			for _, id := range auth {
				if o.authenticates(id.Scheme) {
					fixed = append(fixed, ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.ID})
					*room -= id.size()
				}
			}
			if len(fixed) == n || *room < 0 {
				return nil, InvalidACL
			}
		case a.IDNull && (a.Scheme == schemeWorld || a.Scheme == schemeIP || o.authenticates(a.Scheme)):
			return nil, MarshallingError // a null reference in ZooKeeper
		case a.Scheme == schemeWorld && a.ID == idAnyone,
			a.Scheme == schemeDigest && validDigestID(a.ID),
			a.Scheme == schemeIP && validIPID(a.ID),
			a.Scheme == schemeX509 && o.X509 && validDN(a.ID),
			a.Scheme == schemeSASL && o.SASL && validPrincipal(a.ID):
			fixed = append(fixed, a)
		default:
			return nil, InvalidACL
		}
	}
	return fixed, OK
}

// authenticates says that an id of the scheme proves who somebody is, and that its provider is configured.
func (o *Options) authenticates(scheme string) bool {
	return scheme == schemeDigest || scheme == schemeX509 && o.X509 || scheme == schemeSASL && o.SASL
}

// withoutDuplicates drops exact repetitions and keeps the order.
func withoutDuplicates(acl []ACL) []ACL {
	seen := make(map[ACL]struct{}, len(acl))
	unique := make([]ACL, 0, len(acl))
	for _, a := range acl {
		if _, dup := seen[a]; !dup {
			seen[a] = struct{}{}
			unique = append(unique, a)
		}
	}
	return unique
}

// validDigestID wants two parts around one colon, the second not empty; colons at the end do not count.
func validDigestID(id string) bool { return strings.Count(strings.TrimRight(id, ":"), ":") == 1 }

// masked hides the passwords of a list from who may not administer the node.
func masked(acl []ACL) []ACL {
	out := make([]ACL, len(acl))
	copy(out, acl)
	for i := range out {
		if user, _, found := strings.Cut(out[i].ID, ":"); found && out[i].Scheme == schemeDigest {
			out[i].ID = user + ":x"
		}
	}
	return out
}
