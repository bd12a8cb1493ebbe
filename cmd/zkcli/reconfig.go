package main

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"time"
)

// configPath is the node that holds the ensemble's configuration.
const configPath = "/zookeeper/config"

// reconfigUsage is zkCli's.
const reconfigUsage = "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | " +
	"[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]"

func reconfig(ctx context.Context, s *session, in *invocation) error {
	whole, part := in.has("file") || in.has("members"), in.has("add") || in.has("remove")
	version := int64(-1)
	if v, ok := in.opts["v"]; ok {
		n, err := strconv.ParseInt(v, 16, 64)
		if err != nil {
			return usagef("-v must be followed by a long (configuration version)")
		}
		version = n
	}
	switch {
	case !whole && !part:
		return usageError{in.cmd.usageText()}
	case whole && part:
		return usagef("Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)")
	case in.has("file") && in.has("members"):
		return usagef("Can't use -file and -members together (conflicting non-incremental modes)")
	}
	list := func(name string) *string {
		v, ok := in.opts[name]
		if !ok {
			return nil
		}
		v = strings.ToLower(v)
		return &v
	}
	members := list("members")
	if name, ok := in.opts["file"]; ok {
		text, err := membersOf(name)
		if err != nil {
			return usagef("Error processing %s: %v", name, err)
		}
		members = &text
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	config, st, err := c.Reconfig(ctx, list("add"), list("remove"), members, version)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(dataJSON(configPath, config, st, false))
		return nil
	}
	s.p.line("Committed new configuration:\n%s", config)
	if in.has("s") {
		s.p.stat(st)
	}
	return nil
}

// membersOf gives the lines of a configuration file that say who is a member, separated by commas.
func membersOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var out []string
	for key, value := range properties(text) {
		if strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group.") || strings.HasPrefix(key, "weight.") {
			out = append(out, key+"="+value)
		}
	}
	if out == nil {
		return "", usagef("it names no server")
	}
	return strings.Join(out, ","), nil
}

// properties gives the keys and values of a Java properties file, as far as configurations use its syntax: comments,
// = or : between them, a backslash at the end of a line that goes on, and one before a character that stands for itself.
func properties(text []byte) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
		for line := range bytes.Lines(text) {
			s := strings.TrimSpace(string(line))
			if s == "" || s[0] == '#' || s[0] == '!' {
				continue
			}
			key, value := s, ""
			if i := strings.IndexAny(s, "=: \t"); i >= 0 {
				key, value = s[:i], strings.TrimLeft(s[i:], " \t")
				value = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(value, "="), ":"))
			}
			if !yield(key, strings.ReplaceAll(value, `\`, "")) {
				return
			}
		}
	}
}

// readClientConfiguration takes the properties of a Java client. What would weaken the connection if it were passed over
// is refused; what has no meaning here is passed over.
func (o *options) readClientConfiguration(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return usagef("-client-configuration: %v", err)
	}
	for key, value := range properties(text) {
		switch key {
		case "zookeeper.client.secure":
			if strings.EqualFold(value, "true") {
				return usagef("-client-configuration: %s: connections by TLS are not offered", file)
			}
		case "zookeeper.request.timeout":
			ms, err := strconv.ParseInt(value, 10, 32)
			if err != nil || ms < 0 {
				return usagef("-client-configuration: %s: %s is no number of milliseconds", file, key)
			}
			o.request = time.Duration(ms) * time.Millisecond
		}
	}
	return nil
}
