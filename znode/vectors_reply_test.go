package znode_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

var codeNames = map[znode.Code]string{
	znode.OK: "OK", znode.RuntimeInconsistency: "RUNTIMEINCONSISTENCY", znode.MarshallingError: "MARSHALLINGERROR",
	znode.Unimplemented: "UNIMPLEMENTED", znode.BadArguments: "BADARGUMENTS", znode.NoNode: "NONODE", znode.NoAuth: "NOAUTH",
	znode.BadVersion: "BADVERSION", znode.NoChildrenForEphemerals: "NOCHILDRENFOREPHEMERALS",
	znode.NodeExists: "NODEEXISTS", znode.NotEmpty: "NOTEMPTY", znode.SessionExpired: "SESSIONEXPIRED",
	znode.InvalidACL: "INVALIDACL", znode.AuthFailed: "AUTHFAILED", znode.NoWatcher: "NOWATCHER",
}

// reply prints what came of the last write.
func (b *bench) reply(op string) string {
	res := b.out.Result
	text := codeNames[res.Code] + " z=" + b.z(b.zxid)
	switch {
	case res.Code != znode.OK:
		if op == "multi" {
			text += " (no body)"
		}
		return text
	case op == "multi":
		parts := make([]string, len(b.out.Multi))
		for i, r := range b.out.Multi {
			parts[i] = b.multiResult(b.failedMulti(), r)
		}
		return text + " [" + strings.Join(parts, "; ") + "]"
	case op == "create":
		return text + " " + b.show(res.Path)
	case strings.HasPrefix(op, "create"):
		return text + " " + b.show(res.Path) + " " + b.stat(res.Stat)
	case op == "setData" || op == "setACL":
		return text + " " + b.stat(res.Stat)
	}
	return text
}

func (b *bench) failedMulti() bool {
	return slices.ContainsFunc(b.out.Multi, func(r znode.OpResult) bool { return r.Code != znode.OK })
}

func (b *bench) multiResult(failed bool, r znode.OpResult) string {
	switch {
	case failed:
		return "err:" + codeNames[r.Code]
	case r.Op == znode.OpCreate:
		return "create(" + b.show(r.Path) + ")"
	case r.Op == znode.OpDelete:
		return "delete"
	case r.Op == znode.OpCheck:
		return "check"
	case r.Op == znode.OpSetData:
		return "setData(" + b.stat(r.Stat) + ")"
	}
	return "create2(" + b.show(r.Path) + " " + b.stat(r.Stat) + ")"
}

// read executes what is no write and prints its reply.
func (b *bench) read(s int64, op string, args []string) string {
	var path string
	var null bool
	if len(args) > 0 && op != "auth" && op != "multiRead" && op != "setWatches" {
		path, null = b.path(args[0])
	}
	if op == "auth" {
		ids, c := znode.Authenticate(args[0], b.data(args[1]), "127.0.0.1", b.opts)
		for _, id := range ids {
			if !slices.Contains(b.auth[s], id) {
				b.auth[s] = append(b.auth[s], id)
			}
		}
		return codeNames[c] + " z=z0"
	}
	c, body := znode.OK, ""
	arm := func(kind watch.Kind) {
		if len(args) > 1 && args[1] == "True" {
			b.watches.Add(kind, path, watch.Watcher(s))
		}
	}
	var st znode.Stat
	switch auth := b.auth[s]; op {
	case "exists":
		st, c = b.tree.Exists(path, auth)
		if body = " " + b.stat(st); c == znode.OK || c == znode.NoNode && !null {
			arm(watch.Data)
		}
	case "getData":
		var data []byte
		if data, st, c = b.tree.GetData(path, auth); c == znode.OK {
			arm(watch.Data)
		}
		body = " " + showData(data) + " " + b.stat(st)
	case "getChildren", "getChildren2":
		var names znode.Names
		if names, st, c = b.tree.Children(path, auth); c == znode.OK {
			arm(watch.Child)
		}
		if body = " [" + joined(names) + "]"; op == "getChildren2" {
			body += " " + b.stat(st)
		}
	case "getACL":
		var acl []znode.ACL
		acl, st, c = b.tree.GetACL(path, auth)
		for _, a := range acl {
			body += fmt.Sprintf(" %d:%s:%s", a.Perms, a.Scheme, a.ID)
		}
		body += " " + b.stat(st)
	case "getAllChildrenNumber":
		var n int32
		n, c = b.tree.AllChildrenNumber(path, auth)
		body = fmt.Sprintf(" %d", n)
	case "getEphemerals":
		var shown []string
		for p := range b.tree.Ephemerals(s, path, null).All() {
			shown = append(shown, b.show(p))
		}
		return "OK z=" + b.z(b.zxid) + " [" + strings.Join(shown, ",") + "]"
	case "whoAmI":
		var ids []string
		for _, id := range znode.WhoAmI(auth) {
			ids = append(ids, id.Scheme+":"+id.ID)
		}
		slices.Sort(ids)
		body = " " + strings.Join(ids, ",")
	case "multiRead":
		c, body = b.multiRead(s, args)
	case "setWatches":
		b.setWatches(s, args)
	case "checkWatches", "removeWatches":
		c = b.watchesOf(s, op, path, args[1])
	default:
		b.t.Fatalf("unknown operation %s", op)
	}
	if null && op != "getEphemerals" {
		c = znode.MarshallingError
	}
	if c != znode.OK && op != "multiRead" {
		body = ""
	}
	return codeNames[c] + " z=" + b.z(b.zxid) + body
}

func (b *bench) multiRead(s int64, args []string) (znode.Code, string) {
	var ops []znode.ReadOp
	for _, sub := range args {
		w := tokens(strings.TrimSuffix(strings.TrimPrefix(sub, "("), ")"))
		op := znode.ReadOp{Op: znode.OpGetChildren}
		if w[0] != "getChildren" {
			op.Op = writes[w[0]]
		}
		op.Path, op.PathNull = b.path(w[1])
		ops = append(ops, op)
	}
	results, c := b.tree.MultiRead(ops, b.auth[s])
	parts := make([]string, len(results))
	for i, r := range results {
		switch {
		case r.Code != znode.OK:
			parts[i] = "err:" + codeNames[r.Code]
		case r.Op == znode.OpGetData:
			parts[i] = "data(" + showData(r.Data) + " " + b.stat(r.Stat) + ")"
		default:
			parts[i] = "children(" + joined(r.Names) + ")"
		}
	}
	return c, " [" + strings.Join(parts, "; ") + "]"
}

// setWatches: rel=+8 data=[a b] exist=[c] child=[d].
func (b *bench) setWatches(s int64, args []string) {
	rel := b.base + b.num(strings.TrimPrefix(args[0], "rel="))
	for i, list := range []watch.List{watch.DataList, watch.ExistList, watch.ChildList} {
		for _, name := range strings.Fields(strings.Trim(args[i+1][strings.Index(args[i+1], "["):], "[]")) {
			path, _ := b.path("~/" + strings.TrimPrefix(name, "~/"))
			exists, mzxid, pzxid := b.tree.WatchState(path)
			ev, arm := watch.CatchUp(list, exists, mzxid, pzxid, rel)
			if arm {
				b.watches.Add(list.Kind(), path, watch.Watcher(s))
			} else {
				b.note(s, ev, path, -1)
			}
		}
	}
}

func (b *bench) watchesOf(s int64, op, path, typ string) znode.Code {
	kinds := map[string][]watch.Kind{"1": {watch.Child}, "2": {watch.Data}, "3": {watch.Data, watch.Child}}[typ]
	found := false
	for _, k := range kinds {
		if op == "removeWatches" {
			found = b.watches.Disarm(k, path, watch.Watcher(s)) || found
		} else {
			found = b.watches.Armed(k, path, watch.Watcher(s)) || found
		}
	}
	if !found {
		return znode.NoWatcher
	}
	return znode.OK
}

func (b *bench) z(z int64) string {
	switch {
	case z == 0 || z == -1:
		return fmt.Sprintf("z%d", z)
	case z < b.base:
		return "old"
	}
	return fmt.Sprintf("+%d", z-b.base)
}

func (b *bench) show(path string) string {
	if rest, ok := strings.CutPrefix(path, b.root); ok {
		path = "~" + rest
	}
	var sb strings.Builder
	for _, r := range path {
		if r > 32 && r < 127 {
			sb.WriteRune(r)
		} else {
			fmt.Fprintf(&sb, `\u%04x`, r)
		}
	}
	return sb.String()
}

func (b *bench) stat(s znode.Stat) string {
	times := "mt=ct"
	if s.Mzxid != s.Czxid {
		times = "mt>=ct"
	}
	if s.Mtime < s.Ctime || s.Mzxid == s.Czxid && s.Mtime != s.Ctime {
		times = "bad times"
	}
	owner := "0"
	if s.EphemeralOwner != 0 {
		owner = fmt.Sprintf("S%d", s.EphemeralOwner)
	}
	return fmt.Sprintf("{c%s m%s p%s v%d cv%d av%d own=%s len=%d n=%d %s}", b.z(s.Czxid), b.z(s.Mzxid), b.z(s.Pzxid),
		s.Version, s.Cversion, s.Aversion, owner, s.DataLength, s.NumChildren, times)
}

func showData(d []byte) string {
	if d == nil {
		return "None"
	}
	return "b'" + string(d) + "'"
}

func joined(names znode.Names) string { return strings.Join(slices.Collect(names.All()), ",") }
