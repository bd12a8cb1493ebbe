package znode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is the naive state that the tree is compared with: it executes requests at once, one by one, on whole copies.
type model struct {
	opts     Options
	nodes    map[string]NodeRecord
	sessions map[int64]Session
}

func newModel(o Options) *model {
	m := &model{opts: o, nodes: map[string]NodeRecord{}, sessions: map[int64]Session{}}
	for _, p := range []string{RootPath, SystemPath, QuotaPath} {
		m.nodes[p] = NodeRecord{Path: p, ACL: openACL, Data: []byte{}}
	}
	m.nodes[ConfigPath] = NodeRecord{
		Path: ConfigPath, Aversion: -1, Data: []byte{}, ACL: []ACL{{Perms: PermRead, Scheme: "world", ID: "anyone"}},
	}
	return m
}

func (m *model) copy() *model {
	return &model{opts: m.opts, nodes: maps.Clone(m.nodes), sessions: maps.Clone(m.sessions)}
}

func (m *model) children(path string) (n int32) {
	prefix := strings.TrimSuffix(path, "/") + "/"
	for p := range m.nodes {
		if p != "/" && strings.HasPrefix(p, prefix) && !strings.Contains(p[len(prefix):], "/") {
			n++
		}
	}
	return n
}

func (m *model) stat(path string) Stat {
	n := m.nodes[path]
	st := Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Ctime: n.Ctime, Mtime: n.Mtime, Pzxid: n.Pzxid, Version: n.Version,
		Aversion: n.Aversion, DataLength: int32(len(n.Data)), NumChildren: m.children(path),
	}
	st.Cversion = 2*n.CreateCounter - st.NumChildren
	if m.ephemeral(n) {
		st.EphemeralOwner = n.Owner
	}
	return st
}

func (m *model) ephemeral(n NodeRecord) bool {
	return n.Owner != 0 && n.Owner != ContainerOwner && !(m.opts.ExtendedTypes && uint64(n.Owner)>>56 == 0xff)
}

// run executes a request: the results of its operations, or one code for all of it.
func (m *model) run(r *Request, zxid, now int64) (results []OpResult, whole Code) {
	switch r.Op {
	case OpCreateSession:
		if _, there := m.sessions[r.Session]; there {
			return nil, NodeExists
		}
		m.sessions[r.Session] = Session{ID: r.Session, Timeout: r.Timeout, Password: r.Password, Ticket: r.Ticket}
	case OpCloseSession:
		if _, there := m.sessions[r.Session]; !there {
			return nil, SessionExpired
		}
		for _, p := range slices.Collect(maps.Keys(m.nodes)) {
			if m.nodes[p].Owner == r.Session {
				m.remove(p, zxid)
			}
		}
		delete(m.sessions, r.Session)
		return nil, OK
	case OpMulti:
		before := m.copy()
		for i := range r.Multi {
			res := m.one(r, &r.Multi[i], zxid, now)
			results = append(results, res)
			if res.Code == OK {
				continue
			}
			*m = *before
			if res.Code == MarshallingError {
				return nil, MarshallingError
			}
			for j := range results[:i] {
				results[j] = OpResult{Op: r.Multi[j].Op}
			}
			for _, rest := range r.Multi[i+1:] {
				results = append(results, OpResult{Op: rest.Op, Code: RuntimeInconsistency})
			}
			return results, OK
		}
		if _, there := m.sessions[r.Session]; !there {
			return nil, SessionExpired
		}
	default:
		res := m.one(r, r, zxid, now)
		if res.Code != OK {
			return nil, res.Code
		}
		results = []OpResult{res}
	}
	if s, there := m.sessions[r.Session]; there && s.Ticket.Less(r.Ticket) {
		s.Ticket = r.Ticket
		m.sessions[r.Session] = s
	}
	return results, OK
}

func (m *model) may(path string, perm int32, auth []AuthID) bool {
	return m.opts.allowed(m.nodes[path].ACL, perm, auth)
}

func parentOf(path string) string {
	p := path[:strings.LastIndex(path, "/")]
	if p == "" {
		return "/"
	}
	return p
}

func (m *model) one(req, r *Request, zxid, now int64) OpResult {
	fail := func(c Code) OpResult { return OpResult{Op: r.Op, Code: c} }
	if r.Op.creates() && (r.Flags == 5 || r.Flags == 6) && !m.opts.ExtendedTypes {
		return fail(Unimplemented)
	}
	if r.Op.creates() && (r.Flags >= 5) != (r.Op == OpCreateTTL) || r.Flags >= 5 && (r.TTL <= 0 || r.TTL > MaxTTL) {
		return fail(BadArguments)
	}
	if _, there := m.sessions[req.Session]; !there {
		return fail(SessionExpired)
	}
	n, there := m.nodes[r.Path]
	if (r.Op == OpSetData || r.Op == OpSetACL || r.Op == OpCheck) && !ValidPath(r.Path) {
		return fail(BadArguments)
	}
	switch r.Op {
	case OpDelete:
		parent := parentOf(r.Path)
		_, hasParent := m.nodes[parent]
		switch {
		case r.Path == "/" || r.Path == "/zookeeper" || r.Path == "/zookeeper/config" || r.Path == "/zookeeper/quota":
			return fail(BadArguments)
		case !hasParent:
			return fail(NoNode)
		case !m.may(parent, PermDelete, req.Auth):
			return fail(NoAuth)
		case !there:
			return fail(NoNode)
		case r.Version != -1 && r.Version != n.Version:
			return fail(BadVersion)
		case m.children(r.Path) > 0:
			return fail(NotEmpty)
		}
		m.remove(r.Path, zxid)
		return OpResult{Op: r.Op}
	case OpSetData:
		switch {
		case !there:
			return fail(NoNode)
		case !m.may(r.Path, PermWrite, req.Auth):
			return fail(NoAuth)
		case r.Version != -1 && r.Version != n.Version:
			return fail(BadVersion)
		}
		n.Data, n.Version, n.Mzxid, n.Mtime = r.Data, n.Version+1, zxid, now
	case OpSetACL:
		acl, c := fixed(&m.opts, r.ACL, req.Auth)
		switch {
		case c != OK:
			return fail(c)
		case !there:
			return fail(NoNode)
		case !m.may(r.Path, PermAdmin, req.Auth):
			return fail(NoAuth)
		case r.Version != -1 && r.Version != n.Aversion:
			return fail(BadVersion)
		}
		n.ACL, n.Aversion = acl, n.Aversion+1
	case OpCheck:
		switch {
		case !there:
			return fail(NoNode)
		case !m.may(r.Path, PermRead, req.Auth):
			return fail(NoAuth)
		case r.Version != -1 && r.Version != n.Version:
			return fail(BadVersion)
		}
		return OpResult{Op: r.Op}
	default:
		return m.create(req, r, zxid, now)
	}
	m.nodes[r.Path] = n
	return OpResult{Op: r.Op, Stat: m.stat(r.Path)}
}

func (m *model) create(req, r *Request, zxid, now int64) OpResult {
	fail := func(c Code) OpResult { return OpResult{Op: r.Op, Code: c} }
	acl, c := fixed(&m.opts, r.ACL, req.Auth)
	if c != OK {
		return fail(c)
	}
	parent := parentOf(r.Path)
	pn, hasParent := m.nodes[parent]
	if !hasParent {
		return fail(NoNode)
	}
	if !m.may(parent, PermCreate, req.Auth) {
		return fail(NoAuth)
	}
	path := r.Path
	if r.Flags == 2 || r.Flags == 3 || r.Flags == 6 {
		path += fmt.Sprintf("%010d", pn.CreateCounter)
	}
	if !ValidPath(path) {
		return fail(BadArguments)
	}
	if _, there := m.nodes[path]; there {
		return fail(NodeExists)
	}
	if m.ephemeral(pn) {
		return fail(NoChildrenForEphemerals)
	}
	n := NodeRecord{Path: path, Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: now, Mtime: now, ACL: acl, Data: r.Data}
	switch {
	case r.Op == OpCreateContainer:
		n.Owner = ContainerOwner
	case r.Op == OpCreateTTL:
		n.Owner = TTLOwner(r.TTL)
	case r.Flags == 1 || r.Flags == 3:
		n.Owner = req.Session
	}
	if pn.CreateCounter+1 > pn.CreateCounter {
		pn.CreateCounter++
		pn.Pzxid = zxid
	}
	m.nodes[parent] = pn
	m.nodes[path] = n
	return OpResult{Op: r.Op, Path: path, Stat: m.stat(path)}
}

func (m *model) remove(path string, zxid int64) {
	delete(m.nodes, path)
	parent := parentOf(path)
	pn := m.nodes[parent]
	pn.Pzxid = zxid
	m.nodes[parent] = pn
}
