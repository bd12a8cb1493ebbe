package znode

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"
)

// DigestID makes the digest id of credentials: the user (what is before the first colon, or all of it), a colon, and
// the SHA-1 of the whole in base64. ZooKeeper's stored lists depend on exactly this.
func DigestID(userColonPassword []byte) string {
	sum := sha1.Sum(userColonPassword)
	user, _, _ := strings.Cut(string(userColonPassword), ":")
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// Authenticate gives the identities that an auth request (op 100) adds to its connection, or AuthFailed. Null data
// (nil) fails. remoteIP is the peer's address as text, without port.
func Authenticate(scheme string, data []byte, remoteIP string, o Options) (ids []AuthID, c Code) {
	if data == nil {
		return nil, AuthFailed
	}
	switch scheme {
	case schemeDigest:
		id := DigestID(data)
		ids = append(ids, AuthID{Scheme: schemeDigest, ID: id})
		if o.SuperDigest != "" && id == o.SuperDigest {
			ids = append(ids, AuthID{Scheme: schemeSuper})
		}
		return ids, OK
	case schemeIP:
		return []AuthID{{Scheme: schemeIP, ID: remoteIP}}, OK
	}
	return nil, AuthFailed
}

// size estimates what an identity adds to where it is written, in bytes.
func (id *AuthID) size() int { return 16 + len(id.Scheme) + len(id.ID) }

// AuthSize estimates what identities add to a request that carries them, in bytes.
func AuthSize(auth []AuthID) (n int) {
	for i := range auth {
		n += auth[i].size()
	}
	return n
}

// WhoAmI gives the scheme and the user's name for each identity: what the client may see of it.
func WhoAmI(auth []AuthID) []AuthID {
	out := make([]AuthID, len(auth))
	for i, id := range auth {
		out[i].Scheme = id.Scheme
		switch id.Scheme {
		case schemeDigest:
			out[i].ID, _, _ = strings.Cut(id.ID, ":")
		case schemeIP, schemeX509, schemeSASL:
			out[i].ID = id.ID
		}
	}
	return out
}
