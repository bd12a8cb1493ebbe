package znode_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/znode"
)

// javaTree is a tree as a Java server's data directory holds it.
type javaTree struct {
	LastZxid, TreeDigest string
	Nodes                map[string]struct {
		Data []byte
		ACL  []string
		Stat struct {
			Czxid, Mzxid, Ctime, Mtime, Pzxid, EphemeralOwner int64
			Version, Cversion, Aversion, CversionOnWire       int32
			NumChildren, DataLength                           int32
		}
	}
}

func javaACL(t *testing.T, list []string) (acl []znode.ACL) {
	for _, s := range list {
		scheme, rest, _ := strings.Cut(s, ":")
		i := strings.LastIndex(rest, ":")
		a := znode.ACL{Scheme: scheme, ID: rest[:i]}
		for _, c := range rest[i+1:] {
			bit := strings.IndexRune("rwcda", c)
			if bit < 0 {
				t.Fatalf("permission %q", c)
			}
			a.Perms |= 1 << bit
		}
		acl = append(acl, a)
	}
	return acl
}

// Trees that Java servers wrote, with the digests that they logged.
func TestJavaDigest(t *testing.T) {
	for _, name := range []string{"plain", "kinds", "quorum"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/java-" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var j javaTree
			if err := json.Unmarshal(b, &j); err != nil {
				t.Fatal(err)
			}
			tree := loadJava(t, &j)
			want, err := strconv.ParseUint(j.TreeDigest, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got := tree.Digests().Tree; got != want {
				t.Errorf("digest %#x, Java's is %#x", got, want)
			}
			super := []znode.AuthID{{Scheme: "super"}}
			for p, n := range j.Nodes {
				st, c := tree.Exists(p, super)
				if c != znode.OK || st.Cversion != n.Stat.CversionOnWire || st.NumChildren != n.Stat.NumChildren ||
					st.DataLength != n.Stat.DataLength {
					t.Errorf("%s: %d %+v, want %+v", p, c, st, n.Stat)
				}
			}
		})
	}
}

func loadJava(t *testing.T, j *javaTree) *znode.Tree {
	tree := znode.NewTree(znode.Options{ExtendedTypes: true})
	var paths []string
	for p := range j.Nodes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		n := j.Nodes[p]
		err := tree.Load(znode.NodeRecord{
			Path: p, Czxid: n.Stat.Czxid, Mzxid: n.Stat.Mzxid, Ctime: n.Stat.Ctime, Mtime: n.Stat.Mtime, Pzxid: n.Stat.Pzxid,
			Version: n.Stat.Version, CreateCounter: n.Stat.Cversion, Aversion: n.Stat.Aversion, Owner: n.Stat.EphemeralOwner,
			ACL: javaACL(t, n.ACL), Data: n.Data,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// run applies requests one by one to a new tree.
func run(t *testing.T, o znode.Options, requests ...*znode.Request) *znode.Tree {
	tree := znode.NewTree(o)
	p := znode.NewPreparer(tree)
	var out znode.Applied
	for i, r := range requests {
		zxid := int64(i + 1)
		tree.Apply(p.Prepare(r, zxid, 99), &out)
		p.Applied(zxid)
		if out.Result.Code != znode.OK || out.DigestMismatch {
			t.Fatalf("%+v: %+v", r, out)
		}
	}
	return tree
}

func session(id int64) *znode.Request {
	return &znode.Request{Op: znode.OpCreateSession, Session: id, Timeout: 4000, Password: [16]byte{1, 2, 3}}
}

func create(path string, acl ...znode.ACL) *znode.Request {
	if acl == nil {
		acl = []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}
	}
	return &znode.Request{Op: znode.OpCreate, Session: 7, Path: path, Data: []byte("data"), TTL: -1, ACL: acl}
}

// The state digest is stored, and compared between servers: it must not change by accident.
func TestStateDigestIsStable(t *testing.T) {
	tree := run(t, znode.Options{}, session(7),
		create("/a", znode.ACL{Perms: 31, Scheme: "digest", ID: "bob:x"}, znode.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
	if got, want := tree.Digests().State, uint64(0xcd4a9010d4fe02e0); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

// Each thing that the state digest covers changes it.
func TestStateDigestCovers(t *testing.T) {
	base := znode.NodeRecord{Path: "/a", Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Pzxid: 5, Version: 6, CreateCounter: 7,
		Aversion: 8, Owner: 9, Data: []byte("d"), ACL: []znode.ACL{{Perms: 1, Scheme: "world", ID: "anyone"}}}
	changes := map[string]func(*znode.NodeRecord){
		"nothing": func(*znode.NodeRecord) {},
		"path":    func(r *znode.NodeRecord) { r.Path = "/b" },
		"path and data shifted": func(r *znode.NodeRecord) {
			r.Path, r.Data = "/ad", []byte{}
		},
		"czxid":        func(r *znode.NodeRecord) { r.Czxid++ },
		"mzxid":        func(r *znode.NodeRecord) { r.Mzxid++ },
		"ctime":        func(r *znode.NodeRecord) { r.Ctime++ },
		"mtime":        func(r *znode.NodeRecord) { r.Mtime++ },
		"pzxid":        func(r *znode.NodeRecord) { r.Pzxid++ },
		"version":      func(r *znode.NodeRecord) { r.Version++ },
		"counter":      func(r *znode.NodeRecord) { r.CreateCounter++ },
		"aversion":     func(r *znode.NodeRecord) { r.Aversion++ },
		"owner":        func(r *znode.NodeRecord) { r.Owner = znode.ContainerOwner },
		"data":         func(r *znode.NodeRecord) { r.Data = []byte("e") },
		"empty data":   func(r *znode.NodeRecord) { r.Data = []byte{} },
		"null data":    func(r *znode.NodeRecord) { r.Data = nil },
		"acl":          func(r *znode.NodeRecord) { r.ACL = []znode.ACL{{Perms: 2, Scheme: "world", ID: "anyone"}} },
		"acl in two":   func(r *znode.NodeRecord) { r.ACL = append(r.ACL[:1:1], r.ACL[0]) },
		"below system": func(r *znode.NodeRecord) { r.Path = "/zookeeper/a" },
	}
	seen := map[uint64]string{}
	for name, change := range changes {
		tree := znode.NewTree(znode.Options{})
		r := base
		change(&r)
		if err := tree.Load(r); err != nil {
			t.Fatal(err)
		}
		d := tree.Digests().State
		if other, dup := seen[d]; dup {
			t.Errorf("%q and %q have the same digest", name, other)
		}
		seen[d] = name
	}
	for name, s := range map[string]znode.Session{
		"none": {}, "id": {ID: 2}, "timeout": {Timeout: 1}, "password": {Password: [16]byte{15: 1}}, "other": {Password: [16]byte{1}},
	} {
		tree := znode.NewTree(znode.Options{})
		if err := tree.LoadSession(s); err != nil {
			t.Fatal(err)
		}
		if other, dup := seen[tree.Digests().State]; dup {
			t.Errorf("session %q and %q have the same digest", name, other)
		}
		seen[tree.Digests().State] = name
	}
}

// The configuration node differs between servers and must not count.
func TestConfigNode(t *testing.T) {
	a, b := run(t, znode.Options{}, session(7), create("/a")), run(t, znode.Options{}, session(7), create("/a"))
	st, _ := a.Exists(znode.ConfigPath, nil)
	if want := (znode.Stat{Aversion: -1}); st != want {
		t.Errorf("standalone: %+v", st)
	}
	a.SetConfigNode([]byte("server.1=x\nversion=0"), 0, 12345)
	if a.Digests() != b.Digests() {
		t.Error("the configuration node changes the digests")
	}
	data, st, c := a.GetData(znode.ConfigPath, nil)
	want := znode.Stat{Aversion: -1, Version: -1, Mtime: 12345, DataLength: 20}
	if string(data) != "server.1=x\nversion=0" || c != znode.OK || st != want {
		t.Errorf("%q %+v %d", data, st, c)
	}
	if got, want := a.ApproximateDataSize(), b.ApproximateDataSize()+20; got != want {
		t.Errorf("data size %d, want %d", got, want)
	}
}

func TestLoadRefuses(t *testing.T) {
	open := []znode.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}
	for name, records := range map[string][]znode.NodeRecord{
		"malformed path": {{Path: "/a/", ACL: open}},
		"no slash":       {{Path: "a", ACL: open}},
		"orphan":         {{Path: "/a/b", ACL: open}},
		"twice":          {{Path: "/a", ACL: open}, {Path: "/a", ACL: open}},
	} {
		tree := znode.NewTree(znode.Options{})
		var err error
		for _, r := range records {
			err = tree.Load(r)
		}
		if err == nil {
			t.Errorf("%s: loads", name)
		}
	}
	tree := znode.NewTree(znode.Options{})
	if err := tree.Loaded(5, znode.Digests{}); err == nil {
		t.Error("a wrong digest loads")
	}
	if err := tree.Loaded(5, tree.Digests()); err != nil || tree.Applied() != 5 {
		t.Errorf("%v, applied %d", err, tree.Applied())
	}
	if tree.LoadSession(znode.Session{ID: 1}) != nil || tree.LoadSession(znode.Session{ID: 1}) == nil {
		t.Error("a session loads twice")
	}
}
