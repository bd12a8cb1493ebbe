// Package livetest runs the client against live servers: ours, in this process, on both wires; and the Apache ZooKeeper
// that ZK_APACHE (host:port) names. It is apart from client so that the client's own tests do not build a server.
package livetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// TestApache runs against the Apache ZooKeeper server that ZK_APACHE (host:port) names.
func TestApache(t *testing.T) {
	addr := os.Getenv("ZK_APACHE")
	if addr == "" {
		t.Skip("ZK_APACHE is not set")
	}
	exerciseServer(t, addr, client.ZooKeeper)
}

// exerciseServer runs every operation and a reconnect against a live server.
func exerciseServer(t *testing.T, addr string, wire client.Wire) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	root := fmt.Sprintf("/live-%v-%d", wire, time.Now().UnixNano())
	o := client.Options{Wire: wire, SessionTimeout: 20 * time.Second}
	admin, err := client.Dial(ctx, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, admin)
	if _, err := admin.Create(ctx, root, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	cut := &cutter{to: addr}
	cut.start(t)
	o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("user:secret")}}
	c, err := client.Dial(ctx, cut.addr+root, o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, c)
	l := &live{t: t, ctx: ctx, c: c, admin: admin, root: root, cut: cut, wire: wire}
	for _, s := range []struct {
		name string
		run  func(l *live)
	}{
		{"nodes", (*live).nodes}, {"sequential", (*live).sequential}, {"acl", (*live).acl}, {"multi", (*live).multi},
		{"watches", (*live).watches}, {"reconnect", (*live).reconnect}, {"order", (*live).order}, {"staying", (*live).staying}, {"rest", (*live).rest}, {"chroot", (*live).chroot}, {"expiry", (*live).expiry},
	} {
		t.Run(s.name, func(t *testing.T) {
			step := *l
			step.t = t
			s.run(&step)
		})
	}
}

func closeClient(t *testing.T, c *client.Client) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// live is one run against a server: c is below root and behind the cutter, admin is neither.
type live struct {
	t        *testing.T
	ctx      context.Context
	c, admin *client.Client
	root     string
	cut      *cutter
	wire     client.Wire
}

func (l *live) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) is(err error, code client.Code) {
	l.t.Helper()
	if !errors.Is(err, code) {
		l.t.Fatalf("error %v, want %v", err, code)
	}
}

func (l *live) nodes() {
	name, st, err := l.c.Create2(l.ctx, "/n", []byte("one"), client.Persistent)
	l.ok(err)
	if name != "/n" || st.Version != 0 || st.DataLength != 3 || st.Czxid == 0 || time.Since(st.Ctime).Abs() > time.Minute {
		l.t.Errorf("created %s %+v", name, st)
	}
	_, err = l.c.Create(l.ctx, "/n", nil, client.Persistent)
	l.is(err, client.ErrNodeExists)
	_, err = l.c.Create(l.ctx, "/no/parent", nil, client.Persistent)
	l.is(err, client.ErrNoNode)
	data, st, err := l.c.Get(l.ctx, "/n")
	l.ok(err)
	if string(data) != "one" || st.Czxid != st.Mzxid {
		l.t.Errorf("got %q %+v", data, st)
	}
	st, err = l.c.Set(l.ctx, "/n", []byte{}, 0)
	l.ok(err)
	_, err = l.c.Set(l.ctx, "/n", []byte("x"), 0)
	l.is(err, client.ErrBadVersion)
	if client.MaybeApplied(err) {
		l.t.Error("a refusal may have been applied")
	}
	data, _, err = l.c.Get(l.ctx, "/n")
	l.ok(err)
	if data == nil || len(data) != 0 || st.Version != 1 {
		l.t.Errorf("empty data came as %v, %+v", data, st)
	}
	_, err = l.c.Set(l.ctx, "/n", nil, client.AnyVersion)
	l.ok(err)
	if data, _, err = l.c.Get(l.ctx, "/n"); err != nil || data != nil {
		l.t.Errorf("null data came as %v, %v", data, err)
	}
	for _, p := range []string{"/n/a", "/n/b", "/n/a/deep"} {
		_, err := l.c.Create(l.ctx, p, nil, client.Persistent)
		l.ok(err)
	}
	names, st, err := l.c.Children(l.ctx, "/n")
	l.ok(err)
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b"}) || st.NumChildren != 2 {
		l.t.Errorf("children %v %+v", names, st)
	}
	if n, err := l.c.AllChildrenNumber(l.ctx, "/n"); err != nil || n != 3 {
		l.t.Errorf("%d descendants, %v", n, err)
	}
	l.is(l.c.Delete(l.ctx, "/n/a", client.AnyVersion), client.ErrNotEmpty)
	l.ok(l.c.Delete(l.ctx, "/n/a/deep", client.AnyVersion))
	l.ok(l.c.Delete(l.ctx, "/n/a", 0))
	if _, ok, err := l.c.Exists(l.ctx, "/n/a"); ok || err != nil {
		l.t.Errorf("deleted node exists: %v %v", ok, err)
	}
	if st, ok, err := l.c.Exists(l.ctx, "/n"); !ok || err != nil || st.Version != 2 {
		l.t.Errorf("exists %v %v %+v", ok, err, st)
	}
	l.ok(l.c.Sync(l.ctx, "/n"))
	if _, ok, err := l.c.Exists(l.ctx, "/"); !ok || err != nil {
		l.t.Errorf("the chroot itself: %v %v", ok, err)
	}
	if _, ok, err := l.admin.Exists(l.ctx, l.root+"/n"); !ok || err != nil {
		l.t.Errorf("outside the chroot: %v %v", ok, err)
	}
	if _, _, err := l.c.CreateTTL(l.ctx, "/ttl", nil, client.Persistent, time.Second); client.CodeOf(err) != client.ErrBadArguments {
		l.t.Errorf("a ttl for a persistent node: %v", err)
	}
}

func (l *live) sequential() {
	var names []string
	for range 3 {
		name, err := l.c.Create(l.ctx, "/s-", nil, client.PersistentSequential)
		l.ok(err)
		names = append(names, name)
	}
	if !slices.IsSorted(names) || len(names[0]) != len("/s-0000000000") {
		l.t.Errorf("names %v", names)
	}
	name, err := l.c.Create(l.ctx, "/e-", []byte("e"), client.EphemeralSequential)
	l.ok(err)
	_, st, err := l.c.Get(l.ctx, name)
	l.ok(err)
	if st.EphemeralOwner != l.c.Session().ID {
		l.t.Errorf("owner %#x, session %#x", st.EphemeralOwner, l.c.Session().ID)
	}
	_, err = l.c.Create(l.ctx, name+"/x", nil, client.Persistent)
	l.is(err, client.ErrNoChildrenForEphemerals)
	for _, prefix := range []string{"/", "/e-"} {
		if got, err := l.c.Ephemerals(l.ctx, prefix); err != nil || !slices.Equal(got, []string{name}) {
			l.t.Errorf("ephemerals of %s: %v, %v", prefix, got, err)
		}
	}
	l.ok(l.c.Delete(l.ctx, name, client.AnyVersion))
}

func (l *live) acl() {
	ids, err := l.c.WhoAmI(l.ctx)
	l.ok(err)
	if !slices.Contains(ids, client.Identity{Scheme: "digest", User: "user"}) {
		l.t.Errorf("identities %v", ids)
	}
	_, err = l.c.Create(l.ctx, "/mine", []byte("m"), client.Persistent, client.CreatorACL()...)
	l.ok(err)
	_, _, err = l.admin.Get(l.ctx, l.root+"/mine")
	l.is(err, client.ErrNoAuth)
	acl, st, err := l.c.GetACL(l.ctx, "/mine")
	l.ok(err)
	if len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != client.PermAll || st.Aversion != 0 {
		l.t.Errorf("acl %+v %+v", acl, st)
	}
	st, err = l.c.SetACL(l.ctx, "/mine", append(acl, client.ReadOnlyACL()...), 0)
	l.ok(err)
	if st.Aversion != 1 {
		l.t.Errorf("stat %+v", st)
	}
	_, err = l.c.SetACL(l.ctx, "/mine", acl, 0)
	l.is(err, client.ErrBadVersion)
	if data, _, err := l.admin.Get(l.ctx, l.root+"/mine"); err != nil || string(data) != "m" {
		l.t.Errorf("after opening for reads: %q %v", data, err)
	}
	_, err = l.admin.Set(l.ctx, l.root+"/mine", nil, client.AnyVersion)
	l.is(err, client.ErrNoAuth)
	other, err := client.Dial(l.ctx, l.cut.to+l.root, client.Options{Wire: l.wire, SessionTimeout: 20 * time.Second})
	l.ok(err)
	defer closeClient(l.t, other)
	l.ok(other.AddAuth(l.ctx, "digest", []byte("user:secret")))
	_, err = other.Set(l.ctx, "/mine", nil, client.AnyVersion)
	l.ok(err)
	id := other.Session().ID
	l.is(other.AddAuth(l.ctx, "nonsense", nil), client.ErrAuthFailed)
	_, err = other.Set(l.ctx, "/mine", nil, client.AnyVersion) // on a new connection, with the good identity
	for errors.Is(err, client.ErrConnectionLoss) {
		_, err = other.Set(l.ctx, "/mine", nil, client.AnyVersion)
	}
	l.ok(err)
	if other.Session().ID != id {
		l.t.Error("a refused identity cost the session")
	}
	_, err = l.c.Create(l.ctx, "/bad", nil, client.Persistent, client.ACL{Perms: 1, Scheme: "nonsense", ID: "x"})
	l.is(err, client.ErrInvalidACL)
}

func (l *live) multi() {
	res, err := l.c.Multi(l.ctx,
		client.CreateOp{Path: "/m", Data: []byte("1")}, client.CreateOp{Path: "/m/e-", Mode: client.PersistentSequential},
		client.SetOp{Path: "/m", Data: []byte("2"), Version: 0}, client.CheckOp{Path: "/m", Version: 1},
		client.CreateOp{Path: "/m/gone"}, client.DeleteOp{Path: "/m/gone", Version: 0})
	l.ok(err)
	if len(res) != 6 || res[0].Path != "/m" || res[1].Path != "/m/e-0000000000" || res[2].Stat.Version != 1 || res[0].Stat.Czxid != res[2].Stat.Mzxid || res[0].Stat.Czxid == 0 {
		l.t.Errorf("results %+v", res)
	}
	res, err = l.c.Multi(l.ctx, client.SetOp{Path: "/m", Version: 1}, client.CheckOp{Path: "/m", Version: 77}, client.DeleteOp{Path: "/m", Version: 0})
	l.is(err, client.ErrBadVersion)
	if len(res) != 3 || res[0].Code != client.OK || res[1].Code != client.ErrBadVersion || res[2].Code != client.ErrRuntimeInconsistency || client.MaybeApplied(err) {
		l.t.Errorf("results %+v of a failed multi, %v", res, err)
	}
	if _, err := l.c.Multi(l.ctx); err != nil {
		l.t.Errorf("empty multi: %v", err)
	}
	reads, err := l.c.MultiRead(l.ctx, client.GetOp{Path: "/m"}, client.GetOp{Path: "/none"}, client.ChildrenOp{Path: "/m"})
	l.ok(err)
	if len(reads) != 3 || string(reads[0].Data) != "2" || reads[0].Stat.Version != 1 || reads[1].Code != client.ErrNoNode || !slices.Equal(reads[2].Children, []string{"e-0000000000"}) {
		l.t.Errorf("reads %+v", reads)
	}
}

func (l *live) event(w *client.Watch, typ client.EventType, path string) client.Event {
	l.t.Helper()
	select {
	case ev := <-w.C:
		if ev.Type != typ || ev.Path != path || ev.Err != nil {
			l.t.Fatalf("event %+v, want %v of %s", ev, typ, path)
		}
		return ev
	case <-l.ctx.Done():
		l.t.Fatalf("no event, want %v of %s", typ, path)
	}
	return client.Event{}
}

func (l *live) watches() {
	_, ok, created, err := l.c.ExistsW(l.ctx, "/w")
	l.ok(err)
	if ok || created == nil {
		l.t.Fatal("no watch on a missing node")
	}
	_, _, children, err := l.c.ChildrenW(l.ctx, "/")
	l.ok(err)
	_, err = l.admin.Create(l.ctx, l.root+"/w", nil, client.Persistent)
	l.ok(err)
	l.event(created, client.EventCreated, "/w")
	l.event(children, client.EventChildrenChanged, "/")
	_, _, w, err := l.c.GetW(l.ctx, "/w")
	l.ok(err)
	st, err := l.c.Set(l.ctx, "/w", []byte("own"), client.AnyVersion)
	l.ok(err)
	select { // the event of one's own write comes before its reply
	case ev := <-w.C:
		if ev.Type != client.EventDataChanged || ev.Zxid != st.Mzxid {
			l.t.Errorf("event %+v of zxid %#x", ev, st.Mzxid)
		}
	default:
		l.t.Error("the reply overtook the event")
	}
	_, _, gone, err := l.c.ChildrenW(l.ctx, "/w")
	l.ok(err)
	l.ok(l.admin.Delete(l.ctx, l.root+"/w", client.AnyVersion))
	l.event(gone, client.EventDeleted, "/w")
}

// reconnect: C1, C8, C9, C10. The session, its ephemerals and its watches survive a cut.
func (l *live) reconnect() {
	id := l.c.Session().ID
	for _, p := range []string{"/r", "/r/data", "/r/kid", "/r/quiet", "/r/again"} {
		_, err := l.c.Create(l.ctx, p, nil, client.Persistent)
		l.ok(err)
	}
	_, err := l.c.Create(l.ctx, "/r/eph", nil, client.Ephemeral)
	l.ok(err)
	_, _, data, err := l.c.GetW(l.ctx, "/r/data")
	l.ok(err)
	_, _, kid, err := l.c.ChildrenW(l.ctx, "/r/kid")
	l.ok(err)
	_, _, quiet, err := l.c.GetW(l.ctx, "/r/quiet")
	l.ok(err)
	_, _, again, err := l.c.GetW(l.ctx, "/r/again")
	l.ok(err)
	_, _, exist, err := l.c.ExistsW(l.ctx, "/r/new")
	l.ok(err)
	sub := l.c.Subscribe()
	defer sub.Stop()
	l.cut.block(true)
	for ch := range sub.C {
		if ch.State == client.Suspended {
			break
		}
	}
	a := l.root + "/r"
	_, err = l.admin.Multi(l.ctx, client.SetOp{Path: a + "/data", Version: -1}, client.SetOp{Path: a + "/data", Version: -1},
		client.CreateOp{Path: a + "/kid/x"}, client.CreateOp{Path: a + "/new"},
		client.DeleteOp{Path: a + "/again", Version: -1}, client.CreateOp{Path: a + "/again"})
	l.ok(err)
	l.cut.block(false)
	if ev := l.event(data, client.EventDataChanged, "/r/data"); ev.Zxid != -1 {
		l.t.Errorf("a missed change has zxid %d", ev.Zxid)
	}
	l.event(kid, client.EventChildrenChanged, "/r/kid")
	l.event(exist, client.EventCreated, "/r/new")
	l.event(again, client.EventDataChanged, "/r/again")
	_, st, err := l.c.Get(l.ctx, "/r/eph")
	l.ok(err)
	if l.c.Session().ID != id || st.EphemeralOwner != id {
		l.t.Errorf("session %#x became %#x, the ephemeral is of %#x", id, l.c.Session().ID, st.EphemeralOwner)
	}
	if ids, err := l.c.WhoAmI(l.ctx); err != nil || !slices.Contains(ids, client.Identity{Scheme: "digest", User: "user"}) {
		l.t.Errorf("identities after the cut: %v, %v", ids, err)
	}
	select {
	case ev := <-quiet.C:
		l.t.Errorf("event %+v of nothing", ev)
	default:
	}
	_, err = l.admin.Set(l.ctx, a+"/quiet", nil, client.AnyVersion)
	l.ok(err)
	l.event(quiet, client.EventDataChanged, "/r/quiet")
}

// told reads events of a watch that stays, as "type path", until the last one wanted has come.
func (l *live) told(w *client.PersistentWatch, want ...string) {
	l.t.Helper()
	for i, want := range want {
		select {
		case ev := <-w.C:
			if got := fmt.Sprintf("%v %s", ev.Type, ev.Path); got != want {
				l.t.Fatalf("event %d is %s, want %s", i, got, want)
			}
		case <-l.ctx.Done():
			l.t.Fatalf("event %d does not come, want %s", i, want)
		}
	}
}

// staying: watches of AddWatch, over a cut and to their removal.
func (l *live) staying() {
	_, err := l.c.Create(l.ctx, "/st", nil, client.Persistent)
	l.ok(err)
	node, err := l.c.AddWatch(l.ctx, "/st/n", client.WatchNode)
	l.ok(err)
	tree, err := l.c.AddWatch(l.ctx, "/st", client.WatchTree)
	l.ok(err)
	a := l.root + "/st/n"
	_, err = l.admin.Create(l.ctx, a, nil, client.Persistent)
	l.ok(err)
	_, err = l.admin.Create(l.ctx, a+"/x", nil, client.Persistent)
	l.ok(err)
	_, err = l.admin.Set(l.ctx, a, nil, client.AnyVersion)
	l.ok(err)
	l.ok(l.admin.Delete(l.ctx, a+"/x", client.AnyVersion))
	l.told(node, "NodeCreated /st/n", "NodeChildrenChanged /st/n", "NodeDataChanged /st/n", "NodeChildrenChanged /st/n")
	l.told(tree, "NodeCreated /st/n", "NodeCreated /st/n/x", "NodeDataChanged /st/n", "NodeDeleted /st/n/x")
	l.cut.block(true)
	l.cut.block(false)
	l.told(node, "WatchRearmed /st/n")
	l.told(tree, "WatchRearmed /st")
	l.ok(l.admin.Delete(l.ctx, a, client.AnyVersion))
	l.told(node, "NodeDeleted /st/n")
	l.told(tree, "NodeDeleted /st/n")
	l.ok(node.Remove(l.ctx))
	if ev := <-node.C; !errors.Is(ev.Err, client.ErrWatchRemoved) {
		l.t.Errorf("event %+v of a removed watch", ev)
	}
	l.is(l.c.RemoveWatches(l.ctx, "/st/n", client.WatchersAny), client.ErrNoWatcher)
	l.ok(l.c.RemoveWatches(l.ctx, "/st", client.WatchersTree))
	if ev := <-tree.C; !errors.Is(ev.Err, client.ErrWatchRemoved) {
		l.t.Errorf("event %+v of a removed watch", ev)
	}
	if _, _, err := l.c.Reconfig(l.ctx, nil, nil, nil, -1); err == nil {
		l.t.Error("a reconfiguration succeeded")
	}
}

// rest: what no other step does.
func (l *live) rest() {
	// Nodes that the server removes.
	name, st, err := l.c.Create2(l.ctx, "/container", nil, client.Container)
	l.ok(err)
	if name != "/container" || st.EphemeralOwner != 0 {
		l.t.Errorf("container %s %+v", name, st)
	}
	_, err = l.c.Multi(l.ctx, client.CreateOp{Path: "/container/c", Mode: client.Container})
	l.ok(err)
	name, st, err = l.c.CreateTTL(l.ctx, "/ttl-", nil, client.PersistentSequentialWithTTL, time.Hour)
	if !errors.Is(err, client.ErrUnimplemented) { // Apache's default
		l.ok(err)
		if len(name) != len("/ttl-0000000000") || st.EphemeralOwner != 0 {
			l.t.Errorf("ttl node %s %+v", name, st)
		}
		_, _, err = l.c.CreateTTL(l.ctx, "/ttl", nil, client.PersistentWithTTL, 0)
		l.is(err, client.ErrBadArguments)
	}
	// Which watches there are.
	for _, kind := range []client.WatcherType{client.WatchersChildren, client.WatchersData, client.WatchersAny, client.WatchersNode, client.WatchersTree} {
		l.is(l.c.CheckWatches(l.ctx, "/container", kind), client.ErrNoWatcher)
	}
	_, _, w, err := l.c.ChildrenW(l.ctx, "/container")
	l.ok(err)
	l.ok(l.c.CheckWatches(l.ctx, "/container", client.WatchersChildren))
	l.ok(l.c.CheckWatches(l.ctx, "/container", client.WatchersAny))
	l.is(l.c.CheckWatches(l.ctx, "/container", client.WatchersData), client.ErrNoWatcher)
	if err := l.c.CheckWatches(l.ctx, "/container", 9); err == nil {
		l.t.Error("an unknown kind of watch is known")
	}
	// Every event, once, whichever watches it is for.
	_, _, twin, err := l.c.ChildrenW(l.ctx, "/container")
	l.ok(err)
	events := l.c.Events()
	defer events.Stop()
	l.ok(l.c.Delete(l.ctx, "/container/c", client.AnyVersion))
	l.event(w, client.EventChildrenChanged, "/container")
	l.event(twin, client.EventChildrenChanged, "/container")
	l.is(l.c.CheckWatches(l.ctx, "/container", client.WatchersAny), client.ErrNoWatcher)
	if ev := <-events.C; ev.Type != client.EventChildrenChanged || ev.Path != "/container" {
		l.t.Errorf("overheard %+v", ev)
	}
	if len(events.C) != 0 {
		l.t.Errorf("overheard %+v too", <-events.C)
	}
	// The configuration: no chroot applies.
	_, st, err = l.c.Config(l.ctx)
	l.ok(err)
	_, st2, cw, err := l.c.ConfigW(l.ctx)
	l.ok(err)
	if st != st2 {
		l.t.Errorf("configuration %+v, then %+v", st, st2)
	}
	cw.Stop()
	for _, err := range []error{
		second(l.c.Reconfig(l.ctx, nil, text("1"), nil, -1)), second(l.c.Reconfig(l.ctx, text("server.9=h:1:2;3"), nil, nil, 5)), second(l.c.Reconfig(l.ctx, nil, nil, text("x"), -1)),
	} {
		l.is(err, client.ErrReconfigDisabled)
	}
	_, err = l.c.Ephemerals(l.ctx, "/")
	l.ok(err)
	_, err = l.c.AllChildrenNumber(l.ctx, "/none")
	l.is(err, client.ErrNoNode)
}

func text(s string) *string { return &s }

func second(_ []byte, _ client.Stat, err error) error { return err }

// chroot: G13. One that does not exist is no node like any other, and is made by Create of "/".
func (l *live) chroot() {
	c, err := client.Dial(l.ctx, l.cut.to+l.root+"/below", client.Options{Wire: l.wire, SessionTimeout: 20 * time.Second})
	l.ok(err)
	defer closeClient(l.t, c)
	_, _, err = c.Get(l.ctx, "/")
	l.is(err, client.ErrNoNode)
	_, _, err = c.Get(l.ctx, "/x")
	l.is(err, client.ErrNoNode)
	l.ok(c.Sync(l.ctx, "/x"))
	_, _, w, err := c.ExistsW(l.ctx, "/")
	l.ok(err)
	if name, err := c.Create(l.ctx, "/", nil, client.Persistent); err != nil || name != "/" {
		l.t.Errorf("created %q, %v", name, err)
	}
	l.event(w, client.EventCreated, "/")
	name, err := c.Create(l.ctx, "/below", nil, client.EphemeralSequential) // as its chroot is called
	l.ok(err)
	if name != "/below0000000000" {
		l.t.Errorf("created %q", name)
	}
	if names, err := c.Ephemerals(l.ctx, "/"); err != nil || !slices.Equal(names, []string{name}) {
		l.t.Errorf("ephemerals %v, %v", names, err)
	}
}

// order: many goroutines at once; each reads what it wrote.
func (l *live) order() {
	_, err := l.c.Create(l.ctx, "/o", nil, client.Persistent)
	l.ok(err)
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			p := fmt.Sprintf("/o/%d", g)
			if _, err := l.c.Create(l.ctx, p, nil, client.Persistent); err != nil {
				l.t.Error(err)
				return
			}
			for i := range 20 {
				v := fmt.Sprint(i)
				if _, err := l.c.Set(l.ctx, p, []byte(v), int32(i)); err != nil {
					l.t.Error(err)
					return
				}
				if data, _, err := l.c.Get(l.ctx, p); err != nil || string(data) != v {
					l.t.Errorf("read %q after writing %s: %v", data, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// expiry: a session whose client is cut off ends, and the client learns it.
func (l *live) expiry() {
	cut := &cutter{to: l.cut.to}
	cut.start(l.t)
	c, err := client.Dial(l.ctx, cut.addr+l.root, client.Options{Wire: l.wire, SessionTimeout: time.Second})
	l.ok(err)
	defer c.Abandon()
	_, err = c.Create(l.ctx, "/dies", nil, client.Ephemeral)
	l.ok(err)
	_, _, own, err := c.GetW(l.ctx, "/dies")
	l.ok(err)
	hold, cancel := c.HoldContext(l.ctx)
	defer cancel()
	_, _, w, err := l.c.GetW(l.ctx, "/dies")
	l.ok(err)
	began := time.Now()
	cut.block(true)
	select {
	case <-hold.Done():
		if time.Since(began) > c.Session().Timeout {
			l.t.Errorf("the hold ended after %v", time.Since(began))
		}
	case <-w.C:
		l.t.Error("the server gave the node up before the holder")
	}
	l.event(w, client.EventDeleted, "/dies")
	cut.block(false)
	_, _, err = c.Get(l.ctx, "/")
	l.is(err, client.ErrSessionExpired)
	if ev := <-own.C; ev.Type != client.EventLost || !errors.Is(ev.Err, client.ErrSessionExpired) {
		l.t.Errorf("own watch got %+v", ev)
	}
	if c.State() != client.Expired {
		l.t.Errorf("state %v", c.State())
	}
}

// cutter forwards TCP connections, and cuts them.
type cutter struct {
	to, addr string

	mu      sync.Mutex
	blocked bool
	conns   map[net.Conn]struct{}
}

func (c *cutter) start(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr, c.conns = ln.Addr().String(), make(map[net.Conn]struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.forward(in) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		c.block(true)
		wg.Wait()
	})
}

func (c *cutter) forward(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	c.mu.Lock()
	if c.blocked {
		c.mu.Unlock()
		return
	}
	c.conns[in] = struct{}{}
	c.conns[out] = struct{}{}
	c.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
	wg.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, in)
	delete(c.conns, out)
}

// block cuts all connections and, until it is lifted, every new one.
func (c *cutter) block(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked = on
	if on {
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
}
