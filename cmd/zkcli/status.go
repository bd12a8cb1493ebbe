package main

import (
	"cmp"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkserver/zkserver/client"
)

// statusWait bounds how long a server may take to say how it is.
const statusWait = 2 * time.Second

// statusText bounds what a server may say, in bytes.
const statusText = 1 << 20

// member is what a server says of itself. What it does not say is empty.
type member struct {
	Server      string `json:"server"`
	Role        string `json:"role"` // or why it is not known
	Epoch       uint32 `json:"epoch"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         int64  `json:"lag"` // transactions behind the greatest zxid; -1: it is of an earlier epoch
	Sessions    string `json:"sessions,omitempty"`
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
	lags(members)
	down, leader := 0, ""
	for _, m := range members {
		if m.Zxid == "" {
			down++
		}
		if m.Role == "leader" || m.Role == "standalone" {
			leader = m.Server
		}
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"servers": members})
	} else {
		s.p.table(statusRows(members))
	}
	switch {
	case down > 0:
		s.p.note("%d of %s not serving", down, count(len(members), "server"))
		return &shownError{&client.Error{Op: "status", Code: client.ErrNoServer}}
	case leader == "":
		s.p.note("no server says that it leads: ask again")
	}
	return nil
}

// lags compares each server with the newest one.
func lags(members []member) {
	var newest int64
	for _, m := range members {
		newest = max(newest, m.zxid)
	}
	for i := range members {
		if m := &members[i]; m.Zxid != "" {
			m.Lag = newest - m.zxid
			if m.Epoch != uint32(newest>>32) {
				m.Lag = -1
			}
		}
	}
}

func statusRows(members []member) [][]cell {
	rows := [][]cell{{
		{text: "SERVER"}, {text: "ROLE"}, {text: "EPOCH", right: true}, {text: "ZXID"}, {text: "LAG", right: true}, {text: "SESSIONS", right: true},
		{text: "CONNECTIONS", right: true}, {text: "OUTSTANDING", right: true}, {text: "NODES", right: true}, {text: "LATENCY MS"},
	}}
	for _, m := range members {
		if m.Zxid == "" {
			rows = append(rows, []cell{{text: m.Server}, {text: m.Role, colour: red}})
			continue
		}
		lag, role := cell{text: strconv.FormatInt(m.Lag, 10), right: true}, cell{text: m.Role}
		if m.Lag < 0 {
			lag = cell{text: "old epoch", right: true, colour: yellow}
		}
		if m.Role == "leader" {
			role.colour = green
		}
		number := func(s string) cell { return cell{text: cmp.Or(s, "-"), right: true} }
		rows = append(rows, []cell{
			{text: m.Server}, role, number(strconv.Itoa(int(m.Epoch))), {text: m.Zxid}, lag, number(m.Sessions),
			number(m.Connections), number(m.Outstanding), number(m.Nodes), {text: cmp.Or(m.Latency, "-")},
		})
	}
	return rows
}

// ask sends a server the word srvr, which every ZooKeeper answers, and mntr, which has the sessions and may be forbidden.
func ask(ctx context.Context, server string) member {
	m := member{Server: server}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	said, err := word(ctx, server, "srvr")
	if err != nil && said == "" {
		m.Role = "down: " + err.Error()
		return m
	}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
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
		first, _, _ := strings.Cut(said, "\n")
		m.Role = "not serving: " + cmp.Or(printable([]byte(first)), "no answer")
		return m
	}
	said, _ = word(ctx, server, "mntr") // without it a column is empty
	for line := range strings.Lines(said) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); key == "zk_global_sessions" {
			m.Sessions = value
		}
	}
	return m
}

// word sends a server one of its words, and gives what it says.
func word(ctx context.Context, server, word string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(conn, statusText))
	return string(said), err
}
