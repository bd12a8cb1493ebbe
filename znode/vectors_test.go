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
