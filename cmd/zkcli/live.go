package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/zkserver/zkserver/client"
)

// watchLive prints events of a node, or of a tree, until it is stopped or has seen as many as asked for.
func watchLive(ctx context.Context, s *session, in *invocation) error {
	count := noLimit
	if n, ok := in.opts["c"]; ok {
		var err error
		if count, err = strconv.Atoi(n); err != nil || count < 1 {
			return usagef("count %q: want a positive number", n)
		}
	}
	path, mode := in.args[0], client.WatchNode
	if in.has("r") {
		mode = client.WatchTree
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	w, err := c.AddWatch(ctx, path, mode)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.Remove(end)
	}()
	s.p.note("watching %s", path)
	for range count {
		select {
		case ev, ok := <-w.C:
			switch {
			case !ok || ev.Type == client.EventLost:
				return ev.Err
			case s.p.format == jsonFormat:
				s.p.value(map[string]any{"event": ev.Type.String(), "path": ev.Path, "zxid": ev.Zxid})
			case ev.Type == client.EventRearmed:
				s.p.line("reconnected: what happened meanwhile is not told")
			default:
				s.p.line("%#x %s %s", uint64(ev.Zxid), ev.Type, ev.Path)
			}
		case <-ctx.Done():
			return nil // this is how it ends
		}
	}
	return nil
}

// statusWait bounds how long a server may take to say how it is.
const statusWait = 2 * time.Second

// member is what a server says of itself.
type member struct {
	Server      string `json:"server"`
	Role        string `json:"role"` // or why it is not known
	Epoch       uint32 `json:"epoch"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         int64  `json:"lag"` // transactions behind the greatest zxid of its epoch
	Connections string `json:"connections,omitempty"`
	Outstanding string `json:"outstanding,omitempty"`
	Nodes       string `json:"nodes,omitempty"`
	Latency     string `json:"latency,omitempty"` // ms: least, mean, most
	zxid        int64
}

// status asks every server of the ensemble, or of -server if the ensemble cannot be asked.
func status(ctx context.Context, s *session, _ *invocation) error {
	servers, _, err := client.ParseConnect(s.o.server)
	if err != nil {
		return usagef("%v", err)
	}
	if c, err := s.client(ctx); err == nil {
		if config, _, err := c.Config(ctx); err == nil {
			_, list, _ := strings.Cut(clientConfig(string(config)), " ")
			if all, _, err := client.ParseConnect(list); err == nil && !strings.Contains(list, "0.0.0.0") {
				servers = all
			}
		}
	}
	members := make([]member, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() { members[i] = ask(ctx, server) })
	}
	wg.Wait()
	newest := map[uint32]int64{}
	down := 0
	for i := range members {
		newest[members[i].Epoch] = max(newest[members[i].Epoch], members[i].zxid)
		if members[i].Zxid == "" {
			down++
		}
	}
	for i := range members {
		members[i].Lag = newest[members[i].Epoch] - members[i].zxid
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"servers": members})
	} else {
		var b strings.Builder
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "SERVER\tROLE\tEPOCH\tZXID\tLAG\tCONNECTIONS\tOUTSTANDING\tNODES\tLATENCY MS")
		for _, m := range members {
			if m.Zxid == "" {
				fmt.Fprintf(t, "%s\t%s\n", m.Server, m.Role)
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", m.Server, m.Role, m.Epoch, m.Zxid, m.Lag, m.Connections, m.Outstanding, m.Nodes, m.Latency)
		}
		_ = t.Flush() // to memory
		s.p.line("%s", strings.TrimRight(b.String(), "\n"))
	}
	if down > 0 {
		return &shownError{&client.Error{Op: "status", Code: client.ErrNoServer}}
	}
	return nil
}

// ask sends a server the word srvr, which every ZooKeeper answers.
func ask(ctx context.Context, server string) member {
	m := member{Server: server}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		m.Role = "down: " + err.Error()
		return m
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		m.Role = "down: " + err.Error()
		return m
	}
	first := ""
	for sc := bufio.NewScanner(conn); sc.Scan(); {
		first = cmp.Or(first, sc.Text())
		key, value, _ := strings.Cut(sc.Text(), ": ")
		switch key {
		case "Mode":
			m.Role = value
		case "Zxid":
			m.Zxid = value
			m.zxid, _ = strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64) // 0 if it is no number
			m.Epoch = uint32(m.zxid >> 32)
		case "Connections":
			m.Connections = value
		case "Outstanding":
			m.Outstanding = value
		case "Node count":
			m.Nodes = value
		case "Latency min/avg/max":
			m.Latency = value
		}
	}
	if m.Zxid == "" {
		m.Role = "not serving: " + cmp.Or(first, "no answer")
	}
	return m
}
