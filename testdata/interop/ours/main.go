// Command ours is our own client, on either wire, under test: see ../README.md. The first argument is the wire,
// zookeeper or grpc.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/client"
)

const (
	ephemerals = 20
	watches    = 50
	minWrites  = 2000
	dataNodes  = 40
	patience   = 60 * time.Second
)

var ctx = context.Background()

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "FAIL: "+format+"\n", args...)
		os.Exit(1)
	}
}

func dial(wire, hosts string) *client.Client {
	o := client.Options{SessionTimeout: 10 * time.Second}
	if wire == "grpc" {
		o.Wire = client.GRPC
	}
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := client.Dial(limit, hosts, o)
	check(err == nil, "dial %s: %v", hosts, err)
	return c
}

func waitEvent(w *client.Watch, t client.EventType) {
	select {
	case e := <-w.C:
		check(e.Type == t && e.Err == nil, "event %+v, want %v", e, t)
	case <-time.After(10 * time.Second):
		check(false, "no event, want %v", t)
	}
}

func ops(wire, addr, name string) {
	c := dial(wire, addr)
	root := "/ops-" + name
	p, err := c.Create(ctx, root, []byte("r"), client.Persistent)
	check(err == nil && p == root, "create: %v", err)
	_, err = c.Create(ctx, root, nil, client.Persistent)
	check(errors.Is(err, client.ErrNodeExists), "create twice: %v", err)
	_, st, err := c.Create2(ctx, root+"/a", []byte("1"), client.Persistent)
	check(err == nil && st.Version == 0 && st.DataLength == 1, "create2: %v", err)
	p, err = c.Create(ctx, root+"/s-", nil, client.PersistentSequential)
	check(err == nil && p == root+"/s-0000000001", "sequential: %s %v", p, err)
	_, err = c.Create(ctx, root+"/e", []byte{}, client.Ephemeral)
	check(err == nil, "ephemeral: %v", err)
	p, err = c.Create(ctx, root+"/es-", nil, client.EphemeralSequential)
	check(err == nil && p == root+"/es-0000000003", "ephemeral sequential: %s %v", p, err)
	st, ok, err := c.Exists(ctx, root+"/e")
	check(ok && err == nil && st.EphemeralOwner == c.Session().ID, "exists: %v", err)
	_, ok, err = c.Exists(ctx, root+"/none")
	check(!ok && err == nil, "exists: %v", err)
	data, _, err := c.Get(ctx, root+"/s-0000000001")
	check(err == nil && data == nil, "null stays null: %v %v", data, err)
	data, _, err = c.Get(ctx, root+"/e")
	check(err == nil && data != nil && len(data) == 0, "empty stays empty: %v", err)
	data, _, w, err := c.GetW(ctx, root+"/a")
	check(err == nil && string(data) == "1", "get: %v", err)
	st, err = c.Set(ctx, root+"/a", []byte("2"), 0)
	check(err == nil && st.Version == 1, "set: %v", err)
	waitEvent(w, client.EventDataChanged)
	_, err = c.Set(ctx, root+"/a", nil, 0)
	check(errors.Is(err, client.ErrBadVersion), "set: %v", err)
	kids, st, w, err := c.ChildrenW(ctx, root)
	slices.Sort(kids)
	check(err == nil && st.NumChildren == 4 && slices.Equal(kids, []string{"a", "e", "es-0000000003", "s-0000000001"}), "children: %v %v", kids, err)
	err = c.Delete(ctx, root, -1)
	check(errors.Is(err, client.ErrNotEmpty), "delete a parent: %v", err)
	check(c.Delete(ctx, root+"/a", 1) == nil, "delete")
	waitEvent(w, client.EventChildrenChanged)
	_, ok, w, err = c.ExistsW(ctx, root+"/a")
	check(err == nil && !ok, "existsW: %v", err)
	_, err = c.Create(ctx, root+"/a", []byte("4"), client.Persistent)
	check(err == nil, "create: %v", err)
	waitEvent(w, client.EventCreated)
	acl, st, err := c.GetACL(ctx, root+"/a")
	check(err == nil && len(acl) == 1 && acl[0].ID == "anyone" && st.Aversion == 0, "getACL: %v", err)
	_, err = c.SetACL(ctx, root+"/a", []client.ACL{{Perms: 1, Scheme: "nope", ID: "x"}}, -1)
	check(errors.Is(err, client.ErrInvalidACL), "setACL: %v", err)
	check(c.AddAuth(ctx, "digest", []byte("u:p")) == nil, "addAuth")
	_, err = c.Create(ctx, root+"/private", nil, client.Persistent, client.CreatorACL()...)
	check(err == nil, "create: %v", err)
	other := dial(wire, addr)
	check(other.Sync(ctx, "/") == nil, "sync")
	_, _, err = other.Get(ctx, root+"/private")
	check(errors.Is(err, client.ErrNoAuth), "get: %v", err)
	check(other.Close() == nil, "close")
	who, err := c.WhoAmI(ctx)
	check(err == nil && slices.ContainsFunc(who, func(i client.Identity) bool { return i.Scheme == "digest" && i.User == "u" }), "whoAmI: %v %v", who, err)
	_, err = c.SetACL(ctx, root+"/a", client.ReadOnlyACL(), 0)
	check(err == nil, "setACL: %v", err)
	_, err = c.Set(ctx, root+"/a", nil, -1)
	check(errors.Is(err, client.ErrNoAuth), "set: %v", err)
	eph, err := c.Ephemerals(ctx, root)
	check(err == nil && len(eph) == 2, "ephemerals: %v %v", eph, err)
	n, err := c.AllChildrenNumber(ctx, root)
	check(err == nil && n == 5, "all children: %d %v", n, err)
	r, err := c.Multi(ctx, client.CreateOp{Path: root + "/t", Data: []byte("x")}, client.SetOp{Path: root + "/t", Data: []byte("y"), Version: -1},
		client.CheckOp{Path: root + "/t", Version: 1}, client.DeleteOp{Path: root + "/t", Version: -1})
	check(err == nil && len(r) == 4 && r[1].Stat.Version == 1, "multi: %v", err)
	r, err = c.Multi(ctx, client.CreateOp{Path: root + "/t"}, client.DeleteOp{Path: root + "/none", Version: -1}, client.CheckOp{Path: root, Version: -1})
	check(errors.Is(err, client.ErrNoNode) && len(r) == 3 && r[0].Code == client.OK && r[2].Code == client.ErrRuntimeInconsistency, "multi: %v %v", r, err)
	_, ok, err = c.Exists(ctx, root+"/t")
	check(!ok && err == nil, "rolled back: %v", err)
	rr, err := c.MultiRead(ctx, client.GetOp{Path: root + "/e"}, client.ChildrenOp{Path: root}, client.GetOp{Path: root + "/none"})
	check(err == nil && len(rr) == 3 && len(rr[1].Children) == 5 && rr[2].Code == client.ErrNoNode, "multiRead: %v %v", rr, err)
	kids, _, err = c.Children(ctx, root)
	check(err == nil, "children: %v", err)
	for _, k := range kids {
		check(c.Delete(ctx, root+"/"+k, -1) == nil, "delete %s", k)
	}
	check(c.Delete(ctx, root, -1) == nil, "delete root")
	check(c.Close() == nil, "close")
}

type chaos struct {
	c      *client.Client
	root   string
	nodes  map[string]string
	writes int
	unsure int
	events atomic.Int64
	stop   atomic.Bool
	mu     sync.Mutex
	seen   map[string]string
	faults []string
}

func (x *chaos) fault(format string, args ...any) {
	x.mu.Lock()
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
	x.mu.Unlock()
}

// retry repeats a call that may be repeated until it reaches a server.
func retry(f func() error) error {
	end := time.Now().Add(patience)
	for {
		err := f()
		if !errors.Is(err, client.ErrConnectionLoss) || time.Now().After(end) {
			return err
		}
	}
}

func (x *chaos) settled(path, value string) bool {
	found := ""
	err := retry(func() error {
		if err := x.c.Sync(ctx, path); err != nil {
			return err
		}
		data, _, err := x.c.Get(ctx, path)
		found = string(data)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	})
	if err != nil || found != value && found != x.nodes[path] {
		x.fault("%s holds %q (%v), neither %q nor %q", path, found, err, x.nodes[path], value)
	}
	return found == value
}

func (x *chaos) write(path, value string) {
	_, known := x.nodes[path]
	end := time.Now().Add(patience)
	for {
		var err error
		if known {
			_, err = x.c.Set(ctx, path, []byte(value), -1)
		} else {
			_, err = x.c.Create(ctx, path, []byte(value), client.Persistent)
		}
		if err == nil {
			break
		}
		check((errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrNodeExists)) && time.Now().Before(end), "write %s: %v", path, err)
		x.unsure++
		done := x.settled(path, value)
		if done && errors.Is(err, client.ErrConnectionLoss) && !client.MaybeApplied(err) {
			x.fault("%s: a write that was told as not executed has taken effect", path)
		}
		if done {
			break
		}
	}
	x.nodes[path] = value
	x.writes++
}

// watch follows a node until the session ends.
func (x *chaos) watch(path string) {
	for {
		var w *client.Watch
		var data []byte
		err := retry(func() (err error) {
			data, _, w, err = x.c.GetW(ctx, path)
			return err
		})
		if err != nil {
			if !x.stop.Load() {
				x.fault("watch on %s: %v", path, err)
			}
			return
		}
		x.mu.Lock()
		x.seen[path] = string(data)
		x.mu.Unlock()
		if e := <-w.C; e.Type == client.EventLost {
			return
		}
		x.events.Add(1)
	}
}

func (x *chaos) missing(paths []string) (out []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range paths {
		if x.seen[p] != "last" {
			out = append(out, p)
		}
	}
	return out
}

func (x *chaos) run() {
	for _, p := range []string{"/chaos", x.root} {
		err := retry(func() error { _, err := x.c.Create(ctx, p, nil, client.Persistent); return err })
		check(err == nil || errors.Is(err, client.ErrNodeExists), "create %s: %v", p, err)
	}
	var eph, watched []string
	for i := range ephemerals {
		p := x.root + "/e-" + strconv.Itoa(i)
		err := retry(func() error { _, err := x.c.Create(ctx, p, nil, client.Ephemeral); return err })
		check(err == nil || errors.Is(err, client.ErrNodeExists), "create %s: %v", p, err) // whose it is is checked by the driver
		eph = append(eph, p)
	}
	for i := range watches {
		p := x.root + "/w-" + strconv.Itoa(i)
		x.write(p, "0")
		watched = append(watched, p)
		go x.watch(p) // ends with the session
	}
	for n := 1; !x.stop.Load() || x.writes < minWrites; n++ {
		v := strconv.Itoa(n)
		x.write(x.root+"/d-"+strconv.Itoa(n%dataNodes), v)
		if n%4 == 0 {
			x.write(x.root+"/c-"+v, v)
		}
		if n%3 == 0 {
			x.write(watched[n/3%watches], v)
		}
		if !x.stop.Load() {
			time.Sleep(4 * time.Millisecond)
		}
	}
	for _, p := range watched {
		x.write(p, "last")
	}
	for end := time.Now().Add(patience); time.Now().Before(end) && len(x.missing(watched)) > 0; {
		time.Sleep(50 * time.Millisecond)
	}
	for _, p := range x.missing(watched) {
		x.fault("watch on %s did not tell of the last value", p)
	}
	if st := x.c.State(); st.Final() {
		x.fault("session %v", st)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"writes": x.writes, "unsure": x.unsure, "events": x.events.Load(), "nodes": x.nodes,
		"ephemerals": eph, "sessions": []string{strconv.FormatInt(x.c.Session().ID, 16)}, "faults": append([]string{}, x.faults...)})
}

func main() {
	wire, mode, hosts, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	switch mode {
	case "ops":
		ops(wire, hosts, name)
		fmt.Println("ok")
		return
	case "lock", "write", "latch": // the name is the lock's path
		seconds, err := strconv.Atoi(os.Args[6])
		check(err == nil, "%v", err)
		locks(wire, mode, hosts, name, os.Args[5], time.Duration(seconds)*time.Second)
		return
	case "hold":
		hold(wire, hosts, name)
		return
	case "revoke":
		revoke(wire, hosts, name)
		return
	case "count", "read", "put", "take", "member", "service", "barrier", "wait":
		recipes(mode, dial(wire, hosts), name, os.Args[5:])
		return
	}
	x := &chaos{c: dial(wire, hosts), root: "/chaos/" + name, nodes: map[string]string{}, seen: map[string]string{}}
	ended := make(chan struct{})
	go func() {
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			if s.Text() == "stop" {
				x.stop.Store(true)
			}
		}
		close(ended)
	}()
	x.run()
	<-ended
	check(x.c.Close() == nil, "close")
}
