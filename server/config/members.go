package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/zkserver/zkserver/zab"
)

// MaxServerID is the largest id: it is the high byte of session ids, and 0xFF there would read as an extended type.
const MaxServerID = 254

// Server is one server.N line.
type Server struct {
	zab.Member
	Quorum       []string // host:port of each address, as written; resolved at every dial
	ElectionPort []int    // parsed and checked, never bound
	Client       string   // host:port that clients use, empty if the line names none
}

// parseServer reads the value of server.N:
//
//	addr[|addr...][;client]   addr = host:quorumPort:electionPort[:participant|observer]
func parseServer(id zab.ServerID, value string) (Server, error) {
	s := Server{Member: zab.Member{ID: id, Weight: 1}}
	addrs, client, hasClient := strings.Cut(value, ";")
	if strings.Contains(client, ";") {
		return s, fmt.Errorf("more than one ';' in %q", value)
	}
	role := ""
	for _, a := range strings.Split(addrs, "|") {
		parts, err := splitAddress(strings.TrimSpace(a))
		if err != nil {
			return s, err
		}
		if len(parts) != 3 && len(parts) != 4 {
			if len(parts) == 2 {
				return s, fmt.Errorf("missing election port for server: %d (want host:quorumPort:electionPort[:participant|observer][;client])", id)
			}
			return s, fmt.Errorf("%q: want host:quorumPort:electionPort[:participant|observer][;client]", value)
		}
		q, err := parsePort(parts[1], "quorum port")
		if err != nil {
			return s, err
		}
		e, err := parsePort(parts[2], "election port")
		if err != nil {
			return s, err
		}
		if q == e {
			return s, fmt.Errorf("server %d: the quorum port and the election port must differ (both are %d)", id, q)
		}
		r := "participant"
		if len(parts) == 4 {
			r = strings.ToLower(parts[3])
		}
		if r != "participant" && r != "observer" {
			return s, fmt.Errorf("server %d: %q is not a role; allowed are participant and observer", id, parts[3])
		}
		if role != "" && r != role {
			return s, fmt.Errorf("server %d: its addresses name different roles (%s and %s)", id, role, r)
		}
		role = r
		s.Quorum = append(s.Quorum, net.JoinHostPort(parts[0], strconv.Itoa(q)))
		s.ElectionPort = append(s.ElectionPort, e)
	}
	s.Observer = role == "observer"
	if hasClient {
		c, err := parseClientPart(strings.TrimSpace(client))
		if err != nil {
			return s, fmt.Errorf("server %d: %w", id, err)
		}
		s.Client = c
	}
	return s, nil
}

// splitAddress cuts at colons, keeping a bracketed IPv6 address whole and dropping its brackets.
func splitAddress(a string) ([]string, error) {
	if !strings.HasPrefix(a, "[") {
		parts := strings.Split(a, ":")
		if parts[0] == "" {
			return nil, fmt.Errorf("%q: the host is empty", a)
		}
		return parts, nil
	}
	end := strings.Index(a, "]")
	if end < 0 {
		return nil, fmt.Errorf("%q: missing ']'", a)
	}
	rest := strings.TrimPrefix(a[end+1:], ":")
	return append([]string{a[1:end]}, strings.Split(rest, ":")...), nil
}

func parsePort(s, what string) (int, error) {
	p, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || p < 1 || p > 65535 {
		return 0, fmt.Errorf("%s %q is not a number from 1 to 65535", what, s)
	}
	return p, nil
}

// parseClientPart reads port, host:port or [v6]:port. A bare port binds every address.
func parseClientPart(s string) (string, error) {
	if p, err := strconv.Atoi(s); err == nil {
		if p < 1 || p > 65535 {
			return "", fmt.Errorf("client port %d is not from 1 to 65535", p)
		}
		return net.JoinHostPort("0.0.0.0", s), nil
	}
	parts, err := splitAddress(s)
	if err != nil || len(parts) != 2 {
		return "", fmt.Errorf("client part %q: want port or host:port", s)
	}
	p, err := parsePort(parts[1], "client port")
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(parts[0], strconv.Itoa(p)), nil
}

// parseServerID reads the N of server.N or of myid.
func parseServerID(s string) (zab.ServerID, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 1 || n > MaxServerID {
		return 0, fmt.Errorf("serverid %q is not a number from 1 to %d", strings.TrimSpace(s), MaxServerID)
	}
	return zab.ServerID(n), nil
}

// applyGroups fills in group and weight of hierarchical quorums: groups maps a group to its members.
func applyGroups(servers []Server, groups map[uint64][]zab.ServerID, weights map[zab.ServerID]uint64) error {
	if len(groups) == 0 && len(weights) == 0 {
		return nil
	}
	of := map[zab.ServerID]uint64{}
	for _, g := range sortedKeys(groups) {
		for _, id := range groups[g] {
			if old, dup := of[id]; dup {
				return fmt.Errorf("server %d is in group %d and in group %d", id, old, g)
			}
			of[id] = g
		}
	}
	known := map[zab.ServerID]bool{}
	for i := range servers {
		s := &servers[i]
		known[s.ID] = true
		if w, ok := weights[s.ID]; ok {
			s.Weight = w
		}
		if s.Observer {
			continue
		}
		g, ok := of[s.ID]
		if !ok {
			return fmt.Errorf("server %d is a participant but in no group; with group or weight lines every participant needs one", s.ID)
		}
		s.Group = g
	}
	for _, id := range append(sortedKeys(of), sortedKeys(weights)...) {
		if !known[id] {
			return fmt.Errorf("a group or weight line names server %d, which has no server.%d line", id, id)
		}
	}
	return nil
}

func sortedKeys[K interface{ ~uint64 }, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// MembershipText is the configuration node's data: one line a server and the version, without a newline at the end.
func (c *Config) MembershipText(version int64) string {
	var b strings.Builder
	for _, s := range c.Servers {
		role := "participant"
		if s.Observer {
			role = "observer"
		}
		fmt.Fprintf(&b, "server.%d=", s.ID)
		for i, q := range s.Quorum {
			if i > 0 {
				b.WriteByte('|')
			}
			host, port, _ := net.SplitHostPort(q)
			fmt.Fprintf(&b, "%s:%s:%d:%s", bracket(host), port, s.ElectionPort[i], role)
		}
		if s.Client != "" {
			b.WriteByte(';')
			b.WriteString(s.Client)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "version=%x", uint64(version))
	return b.String()
}

func bracket(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
