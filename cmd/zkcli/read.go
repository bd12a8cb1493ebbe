package main

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zkserver/zkserver/client"
)

// node checks a path and gives the client.
func (s *session) node(ctx context.Context, path string) (*client.Client, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	return s.client(ctx)
}

// oldWatch is the way of zkCli up to 3.4 to ask for a watch: any second argument.
func oldWatch(s *session, in *invocation, now string) bool {
	if len(in.args) < 2 {
		return in.has("w")
	}
	s.p.note("'%s path [watch]' has been deprecated. Please use '%s' instead.", in.cmd.name, now)
	return true
}

func get(ctx context.Context, s *session, in *invocation) error {
	watch := oldWatch(s, in, "get [-s] [-w] path")
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	var data []byte
	var st client.Stat
	var w *client.Watch
	if watch {
		data, st, w, err = c.GetW(ctx, path)
	} else {
		data, st, err = c.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	s.follow(watchKey{client.WatchersData, path}, w)
	switch {
	case s.p.format == jsonFormat:
		s.p.value(dataJSON(path, data, st, in.has("b")))
		return nil
	case in.has("b"):
		s.p.line("%s", base64.StdEncoding.EncodeToString(data))
	case in.has("x"):
		s.p.line("%s", hexDump(data))
	default:
		s.p.data(data)
	}
	if in.has("s") {
		s.p.stat(st)
	}
	return nil
}

// dataJSON has the data as text where it is UTF-8, else (and if asked for) in base64; null is null.
func dataJSON(path string, data []byte, st client.Stat, base64Wanted bool) any {
	var v struct {
		Path   string    `json:"path"`
		Data   *string   `json:"data"`
		Base64 *string   `json:"dataBase64,omitempty"`
		Stat   *jsonStat `json:"stat"`
	}
	v.Path, v.Stat = path, toJSON(st)
	switch {
	case data == nil:
	case base64Wanted || !utf8.Valid(data):
		b := base64.StdEncoding.EncodeToString(data)
		v.Base64 = &b
	default:
		t := string(data)
		v.Data = &t
	}
	return v
}

func configNode(ctx context.Context, s *session, in *invocation) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	var data []byte
	var st client.Stat
	if in.has("w") {
		var w *client.Watch
		data, st, w, err = c.ConfigW(ctx)
		s.follow(watchKey{client.WatchersData, configPath}, w)
	} else {
		data, st, err = c.Config(ctx)
	}
	if err != nil {
		return err
	}
	if in.has("c") {
		data = []byte(clientConfig(string(data)))
	}
	if s.p.format == jsonFormat {
		s.p.value(dataJSON(configPath, data, st, false))
		return nil
	}
	s.p.data(append([]byte{}, data...))
	if in.has("s") {
		s.p.stat(st)
	}
	return nil
}

// clientConfig takes the version and the client addresses out of a configuration, as "100000000 host1:2181,host2:2181".
func clientConfig(config string) string {
	var version string
	var addrs []string
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch _, addr, ok := strings.Cut(value, ";"); {
		case key == "version":
			version = value
		case strings.HasPrefix(key, "server.") && ok:
			if !strings.Contains(addr, ":") {
				host, _, _ := strings.Cut(value, ":")
				addr = host + ":" + addr
			}
			addrs = append(addrs, addr)
		}
	}
	return version + " " + strings.Join(addrs, ",")
}

func statNode(ctx context.Context, s *session, in *invocation) error {
	watch := oldWatch(s, in, "stat [-w] path")
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	var st client.Stat
	var found bool
	var w *client.Watch
	if watch {
		st, found, w, err = c.ExistsW(ctx, path)
	} else {
		st, found, err = c.Exists(ctx, path)
	}
	if err != nil {
		return err
	}
	s.follow(watchKey{client.WatchersData, path}, w) // also of a node that is missing: its creation is told
	if !found {
		return &client.Error{Op: "stat", Path: path, Code: client.ErrNoNode}
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "stat": toJSON(st)})
		return nil
	}
	s.p.stat(st)
	return nil
}

func ls(ctx context.Context, s *session, in *invocation) error {
	watch := oldWatch(s, in, "ls [-w] path")
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	if in.has("R") {
		return s.lsAll(ctx, c, path, watch)
	}
	names, st, err := s.children(ctx, c, path, watch)
	if err != nil {
		return err
	}
	switch s.p.format {
	case jsonFormat:
		s.p.value(map[string]any{"path": path, "children": names, "stat": toJSON(st)})
		return nil
	case raw:
		for _, n := range names {
			s.p.line("%s", n)
		}
	default:
		s.p.line("[%s]", strings.Join(names, ", "))
	}
	if in.has("s") {
		s.p.stat(st)
	}
	return nil
}

// children lists in sorted order, and never gives nil.
func (s *session) children(ctx context.Context, c *client.Client, path string, watch bool) (names []string, st client.Stat, err error) {
	var w *client.Watch
	if watch {
		names, st, w, err = c.ChildrenW(ctx, path)
		s.follow(watchKey{client.WatchersChildren, path}, w)
	} else {
		names, st, err = c.Children(ctx, path)
	}
	if err != nil {
		return nil, st, err
	}
	names = append([]string{}, names...)
	slices.Sort(names)
	return names, st, nil
}

func (s *session) lsAll(ctx context.Context, c *client.Client, path string, watch bool) error {
	all := []string{}
	err := s.walk(ctx, c, path, walking{watch: watch, system: true}, func(n *node) error {
		if s.p.format == jsonFormat {
			all = append(all, n.path)
		} else {
			s.p.line("%s", n.path)
		}
		return nil
	})
	if err == nil && s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "paths": all})
	}
	return err
}

func getACL(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	list, st, err := c.GetACL(ctx, path)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		type entry struct {
			Scheme string `json:"scheme"`
			ID     string `json:"id"`
			Perms  string `json:"perms"`
		}
		acl := []entry{}
		for _, a := range list {
			acl = append(acl, entry{a.Scheme, a.ID, formatPerms(a.Perms)})
		}
		s.p.value(map[string]any{"path": path, "acl": acl, "stat": toJSON(st)})
		return nil
	}
	if s.p.format == raw { // as setAcl and create take it
		var all []string
		for _, a := range list {
			all = append(all, a.Scheme+":"+a.ID+":"+formatPerms(a.Perms))
		}
		s.p.line("%s", strings.Join(all, ","))
		return nil
	}
	for _, a := range list {
		s.p.line("'%s,'%s\n: %s", a.Scheme, a.ID, formatPerms(a.Perms))
	}
	if in.has("s") {
		s.p.stat(st)
	}
	return nil
}

func allChildrenNumber(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	n, err := c.AllChildrenNumber(ctx, path)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "count": n})
		return nil
	}
	s.p.line("%d", n)
	return nil
}

func ephemerals(ctx context.Context, s *session, in *invocation) error {
	prefix := "/"
	if len(in.args) == 1 {
		prefix = in.args[0]
	}
	c, err := s.node(ctx, prefix)
	if err != nil {
		return err
	}
	paths, err := c.Ephemerals(ctx, prefix)
	if err != nil {
		return err
	}
	paths = append([]string{}, paths...)
	slices.Sort(paths)
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"prefix": prefix, "ephemerals": paths})
		return nil
	}
	s.p.line("[%s]", strings.Join(paths, ", "))
	return nil
}

func syncPath(ctx context.Context, s *session, in *invocation) error {
	c, err := s.node(ctx, in.args[0])
	if err != nil {
		return err
	}
	if err := c.Sync(ctx, in.args[0]); err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": in.args[0], "synced": true})
		return nil
	}
	s.p.line("Sync is OK")
	return nil
}

func whoAmI(ctx context.Context, s *session, _ *invocation) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	ids, err := c.WhoAmI(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(ids, func(a, b client.Identity) int { return strings.Compare(a.Scheme+":"+a.User, b.Scheme+":"+b.User) })
	if s.p.format == jsonFormat {
		type identity struct {
			Scheme string `json:"scheme"`
			User   string `json:"user"`
		}
		list := []identity{}
		for _, id := range ids {
			list = append(list, identity(id))
		}
		s.p.value(map[string]any{"identities": list})
		return nil
	}
	s.p.line("Auth scheme: User")
	for _, id := range ids {
		s.p.line("%s: %s", id.Scheme, id.User)
	}
	return nil
}
