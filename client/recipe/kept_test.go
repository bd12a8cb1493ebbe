package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// exists waits until a node is there, with these data, and of another creation than the one given.
func (e *env) exists(c *client.Client, path, data string, not int64) client.Stat {
	e.Helper()
	for {
		_, _, w, err := c.ExistsW(e.ctx, path)
		if passing(err) {
			continue
		}
		e.ok(err)
		got, st, err := c.Get(e.ctx, path)
		if err == nil && string(got) == data && st.Czxid != not {
			w.Stop()
			return st
		}
		e.ok(await(e.ctx, w))
	}
}

// H7: the node comes back, whoever removes it or writes into it, and after the end of its session.
func TestKeptNode(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin := e.dial()
		n := NewKeptNode("/deep/node", []byte("a"), Options{})
		e.s.LoseReply()
		clients, end := e.sessions(n.Run)
		e.ok(n.Wait(e.ctx))
		c := <-clients
		st := e.exists(admin, "/deep/node", "a", 0)
		if st.EphemeralOwner != c.Session().ID {
			e.Errorf("%+v is not of the session %#x", st, c.Session().ID)
		}
		e.s.LoseReply()
		e.ok(remove(e.ctx, admin, "/deep/node"))
		st = e.exists(admin, "/deep/node", "a", st.Czxid)
		e.s.LoseReply()
		e.s.Cut()
		_, err := admin.Set(e.ctx, "/deep/node", []byte("other"), client.AnyVersion)
		for passing(err) {
			_, err = admin.Set(e.ctx, "/deep/node", []byte("other"), client.AnyVersion)
		}
		e.ok(err)
		e.exists(admin, "/deep/node", "a", 0)
		e.s.LoseReply()
		n.Set([]byte("b"))
		e.ok(n.Wait(e.ctx))
		e.exists(admin, "/deep/node", "b", 0)
		for range 3 {
			e.ok(e.s.Expire(c.Session()))
			st = e.exists(admin, "/deep/node", "b", st.Czxid)
			c = <-clients
			if st.EphemeralOwner != c.Session().ID {
				e.Errorf("%+v is not of the session %#x", st, c.Session().ID)
			}
		}
		if err := end(); !errors.Is(err, context.Canceled) {
			e.Errorf("ended by %v", err)
		}
		e.children(admin, "/deep", 0)
	})
}

// H1: a node of another session is waited for, and never taken over.
func TestKeptNodeOfAnother(t *testing.T) {
	onBothWires(t, func(e *env) {
		old, c, admin := e.dial(), e.dial(), e.dial()
		_, err := old.Create(e.ctx, "/n", []byte("old"), client.Ephemeral)
		e.ok(err)
		n := NewKeptNode("/n", []byte("new"), Options{})
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		go func() { ended <- n.Run(ctx, c) }()
		for c.CheckWatches(e.ctx, "/n", client.WatchersData) != nil {
			e.ok(e.ctx.Err())
		}
		e.cut(c)
		st := e.exists(admin, "/n", "old", 0)
		e.ok(e.s.Expire(old.Session()))
		st = e.exists(admin, "/n", "new", st.Czxid)
		if st.EphemeralOwner != c.Session().ID {
			e.Errorf("%+v is not of the session %#x", st, c.Session().ID)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			e.Errorf("ended by %v", err)
		}
		// Another Run of it in the same session is not disturbed by the removal.
		end := e.run(func(ctx context.Context) error { return n.Run(ctx, c) })
		e.ok(n.Wait(e.ctx))
		e.exists(admin, "/n", "new", st.Czxid)
		_ = end()
	})
}

func TestNodeName(t *testing.T) {
	for s, want := range map[string]string{"a": "a", "a/b": "a%2Fb", ".": "%2E", "..": "%2E%2E", "a.b": "a.b", "100%": "100%25"} {
		if got := nodeName(s); got != want || realName(got) != s {
			t.Errorf("%q is %q, and back %q", s, got, realName(got))
		}
	}
}

// ids waits until a group has these members.
func (e *env) ids(g *Group, want ...string) {
	e.Helper()
	e.until("members "+strings.Join(want, " "), g.Cache(), func() bool {
		var got []string
		for _, m := range g.Members() {
			got = append(got, m.ID+"="+string(m.Data))
		}
		return slices.Equal(got, want)
	})
}

// Members come, change, expire and come back, and leave; everybody sees it.
func TestGroup(t *testing.T) {
	onBothWires(t, func(e *env) {
		a, b := NewGroup("/deep/group", "a", []byte("1"), Options{}), NewGroup("/deep/group", "x/y", nil, Options{})
		watcher := NewGroup("/deep/group", "", nil, Options{})
		e.sessions(watcher.Run)
		ofA, endA := e.sessions(a.Run)
		_, endB := e.sessions(b.Run)
		e.ok(a.Joined(e.ctx))
		e.ok(watcher.Joined(e.ctx))
		for _, g := range []*Group{a, b, watcher} {
			e.ids(g, "a=1", "x/y=")
		}
		first := watcher.Members()[0].Token
		e.s.Cut()
		a.SetData([]byte("2"))
		e.ids(watcher, "a=2", "x/y=")
		e.ok(e.s.Expire((<-ofA).Session()))
		e.until("a comes back", watcher.Cache(), func() bool { m := watcher.Members(); return len(m) == 2 && m[0].Token > first })
		_ = endB()
		e.ids(a, "a=2")
		_ = endA()
		e.ids(watcher)
	})
}

func TestInstance(t *testing.T) {
	// As Curator 5 writes it.
	text := `{"name":"files","id":"1-2","address":"10.0.0.1","port":80,"sslPort":null,"payload":{"@class":"java.util.HashMap","zone":"b","n":1},"registrationTimeUTC":1700000000123,"serviceType":"DYNAMIC","uriSpec":null}`
	in, err := decodeInstance([]byte(text))
	if err != nil || in.Service != "files" || in.ID != "1-2" || in.Address != "10.0.0.1" || in.Port != 80 || in.TLSPort != 0 ||
		in.Metadata["zone"] != "b" || in.Since.UnixMilli() != 1700000000123 {
		t.Errorf("%+v, %v", in, err)
	}
	in.Metadata = map[string]string{"zone": "b"}
	data, err := in.encode()
	again, err2 := decodeInstance(data)
	if err != nil || err2 != nil || !maps.Equal(again.Metadata, in.Metadata) || again.Port != in.Port || !again.Since.Equal(in.Since) {
		t.Errorf("%s is %+v, %v, %v", data, again, err, err2)
	}
	if _, err := decodeInstance([]byte("not one")); err == nil {
		t.Error("anything is an instance")
	}
}

// An instance is registered, changed, gone with its session and back in the next one; who follows picks among those there.
func TestDiscovery(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin := e.dial()
		s := NewService("/services", "files")
		e.sessions(s.Run)
		e.ok(s.Cache().WaitSynced(e.ctx))
		if _, ok := s.Pick(); ok {
			e.Error("picked nothing")
		}
		if _, err := NewRegistration("/services", Instance{Service: "files"}, Options{}); err == nil {
			e.Error("an instance without an id")
		}
		var all []*Registration
		var clients []<-chan *client.Client
		for _, id := range []string{"a", "b", "c"} {
			r, err := NewRegistration("/services", Instance{Service: "files", ID: id, Address: "10.0.0." + id, Port: 80}, Options{})
			e.ok(err)
			ch, _ := e.sessions(r.Run)
			e.ok(r.Wait(e.ctx))
			all, clients = append(all, r), append(clients, ch)
		}
		there := func(want string) {
			e.Helper()
			e.until(want, s.Cache(), func() bool {
				var got string
				for _, in := range s.Instances() {
					got += in.ID + in.Metadata["zone"]
				}
				return got == want
			})
		}
		there("abc")
		var picked string
		for range 4 {
			in, _ := s.Pick()
			picked += in.ID
		}
		if picked != "abca" {
			e.Errorf("picked %s", picked)
		}
		before := make(map[string]string)
		seen := make(map[string]bool)
		for i := range 100 {
			key := fmt.Sprint("key ", i)
			in, _ := s.PickFor(key)
			before[key] = in.ID
			seen[in.ID] = true
		}
		if len(seen) != 3 {
			e.Errorf("keys go to %v", before)
		}
		e.ok(all[0].Update(func(in *Instance) { in.Metadata = map[string]string{"zone": "!"} }))
		there("a!bc")
		_, err := admin.Create(e.ctx, "/services/files/odd", []byte("not one"), client.Persistent)
		e.ok(err)
		e.ok(e.s.Expire((<-clients[1]).Session()))
		there("a!bc")
		e.ok((<-clients[2]).Close())
		there("a!b")
		for key, id := range before {
			if in, _ := s.PickFor(key); id != "c" && in.ID != id {
				e.Errorf("%s goes to %s, before to %s", key, in.ID, id)
			}
		}
	})
}
