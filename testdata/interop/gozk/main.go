// Command gozk is the go-zookeeper/zk client under test: see ../README.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	ephemerals = 20
	watches    = 50
	minWrites  = 2000
	dataNodes  = 40
	patience   = 60 * time.Second
)

type silent struct{}

func (silent) Printf(string, ...any) {}

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "FAIL: "+format+"\n", args...)
		os.Exit(1)
	}
}

func connect(hosts string) (*zk.Conn, <-chan zk.Event) {
	c, events, err := zk.Connect(strings.Split(hosts, ","), 10*time.Second, zk.WithLogger(silent{}))
	check(err == nil, "connect: %v", err)
	return c, events
}

func waitEvent(ch <-chan zk.Event, t zk.EventType) {
	select {
	case e := <-ch:
		check(e.Type == t, "event %v, want %v", e, t)
	case <-time.After(10 * time.Second):
		check(false, "no event, want %v", t)
	}
}

func ops(addr, name string) {
	c, _ := connect(addr)
	defer c.Close()
	open := zk.WorldACL(zk.PermAll)
	root := "/ops-" + name
	p, err := c.Create(root, []byte("r"), 0, open)
	check(err == nil && p == root, "create %v", err)
	_, err = c.Create(root, nil, 0, open)
	check(err == zk.ErrNodeExists, "create twice: %v", err)
	_, err = c.Create(root+"/a", []byte("1"), 0, open)
	check(err == nil, "create: %v", err)
	p, err = c.Create(root+"/s-", nil, zk.FlagSequence, open)
	check(err == nil && p == root+"/s-0000000001", "sequence: %s %v", p, err)
	_, err = c.Create(root+"/e", []byte{}, zk.FlagEphemeral, open)
	check(err == nil, "ephemeral: %v", err)
	p, err = c.Create(root+"/es-", nil, zk.FlagEphemeral|zk.FlagSequence, open)
	check(err == nil && p == root+"/es-0000000003", "ephemeral sequence: %s %v", p, err)
	ok, st, err := c.Exists(root + "/e")
	check(ok && err == nil && st.EphemeralOwner == c.SessionID(), "exists: %v %+v", err, st)
	ok, _, err = c.Exists(root + "/none")
	check(!ok && err == nil, "exists: %v", err)
	data, st, ch, err := c.GetW(root + "/a")
	check(err == nil && string(data) == "1" && st.Version == 0, "get: %v", err)
	st, err = c.Set(root+"/a", []byte("2"), 0)
	check(err == nil && st.Version == 1, "set: %v", err)
	waitEvent(ch, zk.EventNodeDataChanged)
	_, err = c.Set(root+"/a", nil, 0)
	check(err == zk.ErrBadVersion, "set: %v", err)
	kids, st, ch, err := c.ChildrenW(root)
	slices.Sort(kids)
	check(err == nil && st.NumChildren == 4 && slices.Equal(kids, []string{"a", "e", "es-0000000003", "s-0000000001"}), "children: %v %v", kids, err)
	check(c.Delete(root, -1) == zk.ErrNotEmpty, "delete a parent")
	check(c.Delete(root+"/a", 1) == nil, "delete")
	waitEvent(ch, zk.EventNodeChildrenChanged)
	_, _, ch, err = c.ExistsW(root + "/a")
	check(err == nil, "existsW: %v", err)
	_, err = c.Create(root+"/a", []byte("4"), 0, open)
	check(err == nil, "create: %v", err)
	waitEvent(ch, zk.EventNodeCreated)
	acl, st, err := c.GetACL(root + "/a")
	check(err == nil && len(acl) == 1 && acl[0].ID == "anyone" && st.Aversion == 0, "getACL: %v", err)
	_, err = c.SetACL(root+"/a", []zk.ACL{{Perms: 1, Scheme: "nope", ID: "x"}}, -1)
	check(err == zk.ErrInvalidACL, "setACL: %v", err)
	check(c.AddAuth("digest", []byte("u:p")) == nil, "addAuth")
	_, err = c.Create(root+"/private", nil, 0, zk.DigestACL(zk.PermAll, "u", "p"))
	check(err == nil, "create: %v", err)
	other, _ := connect(addr)
	_, err = other.Sync("/")
	check(err == nil, "sync: %v", err)
	_, _, err = other.Get(root + "/private")
	check(err == zk.ErrNoAuth, "get: %v", err)
	other.Close()
	_, err = c.SetACL(root+"/a", zk.WorldACL(zk.PermRead), 0)
	check(err == nil, "setACL: %v", err)
	_, err = c.Set(root+"/a", nil, -1)
	check(err == zk.ErrNoAuth, "set: %v", err)
	r, err := c.Multi(&zk.CreateRequest{Path: root + "/t", Data: []byte("x"), Acl: open}, &zk.SetDataRequest{Path: root + "/t", Data: []byte("y"), Version: -1},
		&zk.CheckVersionRequest{Path: root + "/t", Version: 1}, &zk.DeleteRequest{Path: root + "/t", Version: -1})
	check(err == nil && len(r) == 4 && r[1].Stat.Version == 1, "multi: %v", err)
	_, err = c.Multi(&zk.CreateRequest{Path: root + "/t", Acl: open}, &zk.DeleteRequest{Path: root + "/none", Version: -1})
	check(err == zk.ErrNoNode, "multi: %v", err)
	ok, _, err = c.Exists(root + "/t")
	check(!ok && err == nil, "rolled back: %v", err)
	kids, _, err = c.Children(root)
	check(err == nil, "children: %v", err)
	for _, k := range kids {
		check(c.Delete(root+"/"+k, -1) == nil, "delete %s", k)
	}
	check(c.Delete(root, -1) == nil, "delete root")
}

type chaos struct {
	c        *zk.Conn
	root     string
	nodes    map[string]string
	writes   int
	unsure   int
	events   atomic.Int64
	stop     atomic.Bool
	mu       sync.Mutex
	seen     map[string]string
	faults   []string
	sessions []string
}

func (x *chaos) fault(format string, args ...any) {
	x.mu.Lock()
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
	x.mu.Unlock()
}

func lost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// retry repeats a call that may be repeated until it reaches a server.
func retry[T any](f func() (T, error)) (T, error) {
	end := time.Now().Add(patience)
	for {
		v, err := f()
		if !lost(err) || time.Now().After(end) {
			return v, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (x *chaos) settled(path, value string) bool {
	found, err := retry(func() (string, error) {
		if _, err := x.c.Sync(path); err != nil {
			return "", err
		}
		data, _, err := x.c.Get(path)
		if err == zk.ErrNoNode {
			return "", nil
		}
		return string(data), err
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
			_, err = x.c.Set(path, []byte(value), -1)
		} else {
			_, err = x.c.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
		}
		if err == nil {
			break
		}
		check((lost(err) || err == zk.ErrNodeExists) && time.Now().Before(end), "write %s: %v", path, err)
		x.unsure++
		if x.settled(path, value) {
			break
		}
	}
	x.nodes[path] = value
	x.writes++
}

// watch follows a node until the process ends.
func (x *chaos) watch(path string) {
	for {
		type got struct {
			data []byte
			ch   <-chan zk.Event
		}
		g, err := retry(func() (got, error) {
			data, _, ch, err := x.c.GetW(path)
			return got{data, ch}, err
		})
		if err != nil {
			if !x.stop.Load() {
				x.fault("watch on %s: %v", path, err)
			}
			return
		}
		x.mu.Lock()
		x.seen[path] = string(g.data)
		x.mu.Unlock()
		if e := <-g.ch; e.Type == zk.EventNodeDataChanged {
			x.events.Add(1)
		}
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
		_, err := retry(func() (string, error) { return x.c.Create(p, nil, 0, zk.WorldACL(zk.PermAll)) })
		check(err == nil || err == zk.ErrNodeExists, "create %s: %v", p, err)
	}
	var eph, watched []string
	for i := range ephemerals {
		p := x.root + "/e-" + strconv.Itoa(i)
		_, err := retry(func() (string, error) { return x.c.Create(p, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)) })
		check(err == nil || err == zk.ErrNodeExists, "create %s: %v", p, err) // whose it is is checked by the driver
		eph = append(eph, p)
	}
	for i := range watches {
		p := x.root + "/w-" + strconv.Itoa(i)
		x.write(p, "0")
		watched = append(watched, p)
		go x.watch(p) // ends with the process
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
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"writes": x.writes, "unsure": x.unsure, "events": x.events.Load(), "nodes": x.nodes,
		"ephemerals": eph, "sessions": x.sessions, "faults": append([]string{}, x.faults...)})
}

func main() {
	mode, hosts, name := os.Args[1], os.Args[2], os.Args[3]
	switch mode {
	case "ops":
		ops(hosts, name)
		fmt.Println("ok")
		return
	case "lock": // the name is the lock's path
		seconds, err := strconv.Atoi(os.Args[5])
		check(err == nil, "%v", err)
		locks(hosts, name, os.Args[4], time.Duration(seconds)*time.Second)
		return
	}
	c, events := connect(hosts)
	x := &chaos{c: c, root: "/chaos/" + name, nodes: map[string]string{}, seen: map[string]string{}}
	up := make(chan struct{})
	go func() { // ends with the process
		once := sync.Once{}
		for e := range events {
			switch e.State {
			case zk.StateHasSession:
				id := strconv.FormatInt(c.SessionID(), 16)
				x.mu.Lock()
				if !slices.Contains(x.sessions, id) {
					x.sessions = append(x.sessions, id)
				}
				x.mu.Unlock()
				once.Do(func() { close(up) })
			case zk.StateExpired:
				x.fault("session expired")
			}
		}
	}()
	<-up
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
	c.Close()
}
