package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// node is one of a tree that is walked. rel is its path below the top, "/" for the top itself.
type node struct {
	path, rel string
	data      []byte
	stat      client.Stat
	acl       []client.ACL
	names     []string      // of its children, sorted
	watch     *client.Watch // of its list of children
}

// relative is a path below top, which it is or lies below.
func relative(top, p string) string {
	if top == "/" {
		return p
	}
	return cmp.Or(p[len(top):], "/")
}

// at is the path that rel, as of relative, has below top.
func at(top, rel string) string {
	switch {
	case rel == "/":
		return top
	case top == "/":
		return rel
	}
	return top + rel
}

// depth is how far below the top a node lies.
func (n *node) depth() int {
	if n.rel == "/" {
		return 0
	}
	return strings.Count(n.rel, "/")
}

// walking says what a walk reads and where it goes. The zero value: everything below the top, stat and names alone.
type walking struct {
	data, acl bool                         // read these too
	watch     bool                         // watch each list of children
	system    bool                         // the server's own tree, /zookeeper, belongs to the root's
	levels    int                          // 1: the top alone; 0: all
	refused   func(path string, err error) // told of what may not be read, which is then left out; nil: the walk fails
}

// lookahead is how many nodes a walk reads at a time: a tree of many nodes costs few times the way to the server and back.
const lookahead = 32

// step is a node that a walk comes to.
type step struct {
	path string
	done chan struct{} // nil: not asked for yet
	n    *node
	err  error
}

// walk visits a node and all below it, a parent before its children, these sorted. A node that goes away meanwhile is
// left out; the first one has to be there.
func (s *session) walk(ctx context.Context, c *client.Client, top string, w walking, visit func(*node) error) error {
	ctx, cancel := context.WithCancel(ctx)
	todo := []*step{{path: top}}
	defer func() { // what was asked for and is not wanted any more
		cancel()
		for _, st := range todo {
			if st.done == nil {
				continue
			}
			if <-st.done; st.n != nil && st.n.watch != nil {
				st.n.watch.Stop()
			}
		}
	}()
	for len(todo) > 0 {
		for _, st := range todo[max(0, len(todo)-lookahead):] {
			if st.done == nil {
				st.done = make(chan struct{})
				go func() { // ends with the answers
					defer close(st.done)
					st.n, st.err = read(ctx, c, top, st.path, w)
				}()
			}
		}
		st := todo[len(todo)-1]
		<-st.done
		todo = todo[:len(todo)-1]
		n, code := st.n, client.CodeOf(st.err)
		switch {
		case code == client.ErrNoNode && st.path != top:
			continue
		case code == client.ErrNoAuth && w.refused != nil:
			w.refused(st.path, st.err)
			continue
		case st.err != nil:
			return st.err
		}
		s.follow(watchKey{client.WatchersChildren, n.path}, n.watch)
		if err := visit(n); err != nil {
			return err
		}
		s.progress()
		if w.levels > 0 && n.depth()+1 >= w.levels {
			continue
		}
		for _, name := range slices.Backward(n.names) {
			if p := join(n.path, name); w.system || p != "/zookeeper" || s.below() {
				todo = append(todo, &step{path: p})
			}
		}
	}
	return nil
}

// read reads one node.
func read(ctx context.Context, c *client.Client, top, path string, w walking) (*node, error) {
	n := &node{path: path, rel: relative(top, path)}
	var err error
	if w.watch {
		n.names, n.stat, n.watch, err = c.ChildrenW(ctx, path)
	} else {
		n.names, n.stat, err = c.Children(ctx, path)
	}
	slices.Sort(n.names)
	if err == nil && w.data {
		n.data, n.stat, err = c.Get(ctx, path)
	}
	if err == nil && w.acl {
		n.acl, _, err = c.GetACL(ctx, path)
	}
	return n, err
}

// below reports whether the session's root is some node's place, not the ensemble's.
func (s *session) below() bool {
	_, chroot, err := client.ParseConnect(s.o.server)
	return err == nil && chroot != ""
}

// refusals prints what may not be read, for a walk that goes on, and keeps the first such error for the end.
type refusals struct {
	s     *session
	first error
}

func (r *refusals) tell(_ string, err error) {
	r.s.p.failure(err)
	if r.first == nil {
		r.first = &shownError{err}
	}
}
