package znode_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

// The vectors are what Apache ZooKeeper 3.9.5 printed: request => result, and the events that followed. They run here
// against tree, preparer and watch table without any server around them.
//
//   - "~" is the vector's root node, zxids are relative to its creation.
//   - S1, S2... are sessions. "pipelined" is S1, all such lines in a row prepared before the first is applied.
//   - Lines that begin with "setup" are ours: requests that the recording's prober made without printing them. A few
//     labels are written out, and steps that are about connections, quotas, persistent watches or time are left out.
func TestVectors(t *testing.T) {
	vectors := readVectors(t, "testdata/vectors-3.9.5.txt")
	if len(vectors) < 40 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) { newBench(t, v.name).run(v.lines) })
	}
}

type vector struct {
	name  string
	lines []string
}

func readVectors(t *testing.T, file string) (vs []vector) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		switch name, title, isTitle := strings.Cut(line, " -- "); {
		case line == "":
		case isTitle:
			vs = append(vs, vector{name: name + " " + title})
		default:
			vs[len(vs)-1].lines = append(vs[len(vs)-1].lines, line)
		}
	}
	return vs
}

// bench is a server of one process for one vector.
type bench struct {
	t          *testing.T
	root       string
	tree       *znode.Tree
	prep       *znode.Preparer
	watches    *watch.Table
	zxid, base int64
	auth       map[int64][]znode.AuthID
	events     map[int64][]string
	out        znode.Applied
	opts       znode.Options
}

const benchSessions = 4

func newBench(t *testing.T, name string) *bench {
	b := &bench{
		t: t, root: "/probe/" + strings.Fields(name)[0], watches: watch.NewTable(),
		auth: map[int64][]znode.AuthID{}, events: map[int64][]string{},
		opts: znode.Options{ExtendedTypes: true, SuperDigest: znode.DigestID([]byte("super:test"))},
	}
	b.tree = znode.NewTree(b.opts)
	b.prep = znode.NewPreparer(b.tree)
	for s := int64(1); s <= benchSessions; s++ {
		b.auth[s] = []znode.AuthID{{Scheme: "ip", ID: "127.0.0.1"}}
		b.write(&znode.Request{Op: znode.OpCreateSession, Session: s, Timeout: 10000})
	}
	for _, p := range []string{"/probe", b.root} {
		b.write(b.request(1, "create", []string{p}))
	}
	b.base = b.zxid
	return b
}

func (b *bench) write(r *znode.Request) {
	b.zxid++
	b.apply(b.prep.Prepare(r, b.zxid, 1_700_000_000_000+b.zxid))
}

// apply goes through the encoding, as on a follower.
func (b *bench) apply(txn *znode.Txn) {
	decoded, err := znode.DecodeTxn(znode.AppendTxn(nil, txn))
	if err != nil {
		b.t.Fatal(err)
	}
	b.tree.Apply(decoded, &b.out)
	b.prep.Applied(txn.Zxid)
	if b.out.DigestMismatch {
		b.t.Errorf("%+v: digests differ", txn)
	}
	for i := range b.out.Events {
		ev := &b.out.Events[i]
		for _, w := range b.watches.Fire(ev, nil) {
			if b.tree.CheckRead(ev.ACL, b.auth[int64(w)]) {
				b.note(int64(w), ev.Type, ev.Path, txn.Zxid)
			}
		}
	}
}

func (b *bench) note(s int64, typ znode.EventType, path string, zxid int64) {
	name := map[znode.EventType]string{
		znode.EventCreated: "NodeCreated", znode.EventDeleted: "NodeDeleted",
		znode.EventDataChanged: "NodeDataChanged", znode.EventChildrenChanged: "NodeChildrenChanged",
	}[typ]
	b.events[s] = append(b.events[s], fmt.Sprintf("S%d <- %s %s state=3 z=%s", s, name, b.show(path), b.z(zxid)))
}

func (b *bench) run(lines []string) {
	var pipelined []*znode.Txn
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if strings.Contains(line, " <- ") {
			continue
		}
		id, rest, _ := strings.Cut(line, " ")
		who, rest, _ := strings.Cut(rest, " ")
		ask, want, answered := strings.Cut(rest, " => ")
		session := int64(1)
		if who != "pipelined" {
			session = int64(who[1] - '0')
		}
		words := tokens(ask)
		if who == "pipelined" && len(pipelined) == 0 {
			for _, l := range lines[i:] {
				f := strings.SplitN(l, " ", 3)
				if f[1] != "pipelined" {
					break
				}
				ask, _, _ := strings.Cut(f[2], " => ")
				if r := b.request(1, tokens(ask)[0], tokens(ask)[1:]); r != nil {
					pipelined = append(pipelined, b.prep.Prepare(r, b.zxid+1+int64(len(pipelined)), 1_700_000_000_000))
				}
			}
		}
		var got string
		if r := b.request(session, words[0], words[1:]); r == nil {
			got = b.read(session, words[0], words[1:])
		} else if who == "pipelined" {
			b.zxid++
			b.apply(pipelined[0])
			pipelined = pipelined[1:]
			got = b.reply(words[0])
		} else {
			b.write(r)
			got = b.reply(words[0])
		}
		if want == "OK" { // the recording shows no more
			got, _, _ = strings.Cut(got, " ")
		}
		if head, ids, ok := strings.Cut(want, " sorted "); ok {
			want, got = head+" "+ids, sortedACL(got)
		}
		if answered && got != want {
			b.t.Errorf("%s %s\ngot  %s\nwant %s", id, ask, got, want)
		}
		b.checkEvents(id, lines[i+1:])
	}
}

// sortedACL sorts what getACL printed: the scheme auth expands in no particular order.
func sortedACL(reply string) string {
	f := strings.Fields(reply[:strings.Index(reply, " {")])
	slices.Sort(f[2:])
	return strings.Join(f, " ")
}

// checkEvents compares the events that the recording printed behind a step.
func (b *bench) checkEvents(id string, lines []string) {
	want := map[int64][]string{}
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if !strings.Contains(l, " <- ") {
			break
		}
		s := int64(l[1] - '0')
		want[s] = append(want[s], l)
	}
	for s, w := range want {
		if strings.HasSuffix(w[0], "(no event)") {
			w = nil
		}
		if !slices.Equal(w, b.events[s]) {
			b.t.Errorf("%s\ngot  %q\nwant %q", id, b.events[s], w)
		}
		delete(b.events, s)
	}
}

// tokens splits a request's text at blanks outside of brackets, parentheses and quotes.
func tokens(s string) (out []string) {
	depth, quoted, start := 0, false, 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == ' ' && depth == 0 && !quoted {
			if i > start {
				out = append(out, s[start:i])
			}
			start = i + 1
			continue
		}
		switch s[i] {
		case '\'':
			quoted = !quoted
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		}
	}
	return out
}

func (b *bench) path(s string) (path string, null bool) {
	switch s {
	case "None":
		return "", true
	case "''":
		return "", false
	case "~/<invalid-utf-8>":
		return b.root + "/\xff\xfe", false
	case "~/<lone-surrogate>":
		return b.root + "/\xed\xa0\x80", false
	}
	for {
		i := strings.Index(s, `\u`)
		if i < 0 {
			break
		}
		end := i + 6
		for end < len(s) && end < i+7 && s[i+2] == '1' && strings.IndexByte("0123456789abcdef", s[end]) >= 0 {
			end++ // five digits
		}
		code, err := strconv.ParseUint(s[i+2:end], 16, 32)
		if err != nil {
			b.t.Fatal(err)
		}
		s = s[:i] + string(rune(code)) + s[end:]
	}
	if rest, ok := strings.CutPrefix(s, "~"); ok {
		s = b.root + rest
	}
	return s, false
}

func (b *bench) data(s string) []byte {
	if s == "None" {
		return nil
	}
	return []byte(strings.TrimSuffix(strings.TrimPrefix(s, "b'"), "'"))
}

func (b *bench) acl(s string) []znode.ACL {
	switch s {
	case "open":
		return []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}
	case "None":
		return nil
	}
	acl := []znode.ACL{}
	for _, e := range strings.Fields(strings.Trim(s, "[]")) {
		f := strings.SplitN(e, ":", 3)
		a := znode.ACL{Perms: int32(b.num(f[0])), Scheme: f[1], ID: f[2]}
		if a.Scheme == "None" {
			a.Scheme, a.SchemeNull = "", true
		}
		if a.ID == "None" {
			a.ID, a.IDNull = "", true
		}
		acl = append(acl, a)
	}
	return acl
}

func (b *bench) num(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

var writes = map[string]znode.Op{
	"create": znode.OpCreate, "create2": znode.OpCreate2, "createContainer": znode.OpCreateContainer,
	"createTTL": znode.OpCreateTTL, "delete": znode.OpDelete, "setData": znode.OpSetData, "setACL": znode.OpSetACL,
	"check": znode.OpCheck, "multi": znode.OpMulti, "closeSession": znode.OpCloseSession, "getData": znode.OpGetData,
	"exists": znode.OpExists, "deleteContainer": znode.OpDeleteContainer,
}

// request makes the request of a write, or nil.
func (b *bench) request(session int64, op string, args []string) *znode.Request {
	r := b.subRequest(op, args)
	if r.Op == znode.OpError || r.Op == znode.OpGetData || r.Op == znode.OpExists {
		return nil
	}
	r.Session, r.Auth = session, b.auth[session]
	return r
}

func (b *bench) subRequest(op string, args []string) *znode.Request {
	code, known := writes[op]
	if !known {
		return &znode.Request{Op: znode.OpError}
	}
	r := &znode.Request{Op: code, TTL: -1, Version: -1, Data: []byte{}, ACL: b.acl("open")}
	arg := func(i int) (string, bool) {
		if i < len(args) {
			return args[i], true
		}
		return "", false
	}
	if a, ok := arg(0); ok && op != "multi" {
		r.Path, r.PathNull = b.path(a)
	}
	switch code {
	case znode.OpMulti:
		for _, sub := range args {
			w := tokens(strings.TrimSuffix(strings.TrimPrefix(sub, "("), ")"))
			r.Multi = append(r.Multi, *b.subRequest(w[0], w[1:]))
		}
	case znode.OpDelete, znode.OpCheck:
		if a, ok := arg(1); ok {
			r.Version = int32(b.num(a))
		}
	case znode.OpSetData:
		if a, ok := arg(1); ok {
			r.Data = b.data(a)
		}
		if a, ok := arg(2); ok {
			r.Version = int32(b.num(a))
		}
	case znode.OpSetACL:
		if a, ok := arg(1); ok {
			r.ACL = b.acl(a)
		}
		if a, ok := arg(2); ok {
			r.Version = int32(b.num(a))
		}
	default:
		if a, ok := arg(1); ok && code != znode.OpGetData && code != znode.OpExists {
			r.Data = b.data(a)
		}
		if a, ok := arg(2); ok {
			r.ACL = b.acl(a)
		}
		if a, ok := arg(3); ok {
			r.Flags = int32(b.num(a))
		}
		if a, ok := arg(4); ok {
			r.TTL = b.num(a)
		}
	}
	return r
}

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
		var names []string
		if names, st, c = b.tree.Children(path, auth); c == znode.OK {
			arm(watch.Child)
		}
		if body = " [" + strings.Join(names, ",") + "]"; op == "getChildren2" {
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
		for _, p := range b.tree.Ephemerals(s, path, null) {
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
			parts[i] = "children(" + strings.Join(r.Names, ",") + ")"
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
