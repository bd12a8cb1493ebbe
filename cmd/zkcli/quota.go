package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// The nodes of quotas: limits and what is used stand below /zookeeper/quota and the path.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsNode = "zookeeper_limits"
	statsNode  = "zookeeper_stats"
)

// The fields of such a node.
const (
	countField     = "count"
	bytesField     = "bytes"
	countHardField = "countHardLimit"
	bytesHardField = "byteHardLimit"
)

// quotaFields are by the option that names them.
var quotaFields = map[string]string{"n": countField, "b": bytesField, "N": countHardField, "B": bytesHardField}

// track is the content of such a node: what is missing, or negative, is no limit.
type track map[string]int64

// parseTrack reads "count=5,bytes=100=;byteHardLimit=1000;countHardLimit=10", which old clients read as count and bytes.
func parseTrack(data []byte) track {
	t := track{}
	for part := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err != nil {
			n = -1
		}
		t[key] = n
	}
	return t
}

func (t track) get(key string) int64 {
	if n, ok := t[key]; ok {
		return n
	}
	return -1
}

// String writes it in the form that zkCli and the servers read.
func (t track) String() string {
	s := "count=" + strconv.FormatInt(t.get(countField), 10) + ",bytes=" + strconv.FormatInt(t.get(bytesField), 10)
	sep := "=;"
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if key != countField && key != bytesField {
			s += sep + key + "=" + strconv.FormatInt(t[key], 10)
			sep = ";"
		}
	}
	return s
}

// quotaOption is the one option that names a limit, or empty.
func (in *invocation) quotaOption() (string, error) {
	name := ""
	for _, o := range in.cmd.options {
		switch {
		case !in.has(o.name):
		case name != "":
			return "", usagef("The option '%s' was specified but an option from this group has already been selected: '%s'", o.name, name)
		default:
			name = o.name
		}
	}
	return name, nil
}

func setQuota(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	name, err := in.quotaOption()
	switch {
	case err != nil:
		return err
	case name == "":
		return usagef("Missing required option: [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]")
	case strings.HasPrefix(path, quotaRoot):
		return mild{usagef("cannot set a quota under the path: %s", quotaRoot)}
	case endsApache(path):
		return usagef("cannot set a quota of %s: its nodes would end Apache ZooKeeper, which then does not start again", path)
	}
	bits, low, what := 64, int64(0), "the bytes quota must be greater than or equal to zero"
	if strings.EqualFold(name, "n") {
		bits, low, what = 32, 1, "the num quota must be greater than zero"
	}
	limit, err := strconv.ParseInt(in.opts[name], 10, bits)
	switch {
	case err != nil:
		return mild{usagef("the quota %q is no number that fits", in.opts[name])}
	case limit < low:
		return mild{usagef("%s", what)}
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	quota, used, err := changeQuota(ctx, c, path, quotaFields[name], limit)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "quota": quota, "used": used})
		return nil
	}
	over := func(soft, hard string) bool {
		n := used.get(soft)
		return quota.get(soft) > -1 && quota[soft] < n || quota.get(hard) > -1 && quota[hard] < n
	}
	if over(countField, countHardField) {
		s.p.line("[Warning]: the count quota you create is less than the existing count:%d", used.get(countField))
	}
	if over(bytesField, bytesHardField) {
		s.p.line("[Warning]: the bytes quota you create is less than the existing bytes:%d", used.get(bytesField))
	}
	return nil
}

// endsApache reports whether an Apache server would take the nodes of a path's quota for one of the root, now or when it
// reads its snapshot; it ends then. Deeper down it takes names like theirs for quotas, and refuses writes.
func endsApache(path string) bool {
	return path == "/" || strings.Contains(path, "/"+limitsNode) || strings.Contains(path, "/"+statsNode)
}

// changeQuota sets one limit of a path, and gives all of them and what is used.
func changeQuota(ctx context.Context, c *client.Client, path, field string, limit int64) (quota, used track, err error) {
	if _, found, err := c.Exists(ctx, path); err != nil || !found {
		if err == nil {
			err = usagef("%s does not exist.", path)
		}
		return nil, nil, err
	}
	if err := loneQuota(ctx, c, path); err != nil {
		return nil, nil, err
	}
	base := quotaRoot + strings.TrimSuffix(path, "/")
	for at := 0; at <= len(base); at++ {
		if at == len(base) || at > 0 && base[at] == '/' {
			if _, err := c.Create(ctx, base[:at], nil, client.Persistent); err != nil && !errors.Is(err, client.ErrNodeExists) {
				return nil, nil, err
			}
		}
	}
	limits, stats := join(base, limitsNode), join(base, statsNode)
	data, st, err := c.Get(ctx, limits)
	switch {
	case errors.Is(err, client.ErrNoNode):
		quota = track{countField: -1, bytesField: -1, countHardField: -1, bytesHardField: -1}
		quota[field] = limit
		if _, err = c.Create(ctx, limits, []byte(quota.String()), client.Persistent); err != nil {
			return nil, nil, err
		}
		zero := track{countField: 0, bytesField: 0} // the server counts
		if _, err := c.Create(ctx, stats, []byte(zero.String()), client.Persistent); err != nil {
			return nil, nil, err
		}
	case err != nil:
		return nil, nil, err
	default:
		quota = parseTrack(data)
		quota[field] = limit
		if _, err := c.Set(ctx, limits, []byte(quota.String()), st.Version); err != nil {
			return nil, nil, err
		}
	}
	data, _, err = c.Get(ctx, stats)
	return quota, parseTrack(data), err
}

// loneQuota refuses a path above or below which there is a quota.
func loneQuota(ctx context.Context, c *client.Client, path string) error {
	s := &session{progress: func() {}}
	own := quotaRoot + path
	err := s.walk(ctx, c, own, walking{}, func(n *node) error {
		if tree, is := strings.CutSuffix(n.path, "/"+limitsNode); is && tree != own {
			return usagef("%s has a child %s which has a quota", path, strings.TrimPrefix(tree, quotaRoot))
		}
		return nil
	})
	if err != nil && client.CodeOf(err) != client.ErrNoNode {
		return err
	}
	for above := path; above != "/"; {
		above = above[:max(1, strings.LastIndexByte(above, '/'))]
		if above == "/" {
			break
		}
		_, found, err := c.Exists(ctx, quotaRoot+above+"/"+limitsNode)
		if err != nil {
			return err
		}
		if found {
			return usagef("%s has a parent %s which has a quota", path, above)
		}
	}
	return nil
}

func listQuota(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	base := quotaRoot + path
	if s.p.format != jsonFormat {
		s.p.note("absolute path is %s", join(base, limitsNode))
	}
	limits, _, err := c.Get(ctx, join(base, limitsNode))
	var used []byte
	if err == nil {
		used, _, err = c.Get(ctx, join(base, statsNode))
	}
	switch {
	case errors.Is(err, client.ErrNoNode):
		return mild{noQuota{path, err}}
	case err != nil:
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "quota": parseTrack(limits), "used": parseTrack(used)})
		return nil
	}
	s.p.line("Output quota for %s %s", path, parseTrack(limits))
	s.p.line("Output stat for %s %s", path, parseTrack(used))
	return nil
}

// noQuota is a path without a quota.
type noQuota struct {
	path string
	err  error
}

func (e noQuota) Error() string { return "quota for " + e.path + " does not exist." }
func (e noQuota) Unwrap() error { return e.err }

func delQuota(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	name, err := in.quotaOption()
	if err != nil {
		return err
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	base := quotaRoot + strings.TrimSuffix(path, "/")
	data, st, err := c.Get(ctx, join(base, limitsNode))
	switch {
	case errors.Is(err, client.ErrNoNode):
		if s.p.format == jsonFormat {
			s.p.value(map[string]any{"path": path, "deleted": 0})
			return nil
		}
		s.p.line("Quota does not exist for %s", path)
		return nil
	case err != nil:
		return err
	case name != "":
		quota := parseTrack(data)
		quota[quotaFields[name]] = -1
		_, err = c.Set(ctx, join(base, limitsNode), []byte(quota.String()), st.Version)
	default:
		err = trimQuota(ctx, c, base)
	}
	if err == nil && s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "deleted": 1})
	}
	return err
}

// trimQuota deletes a quota's nodes, and those above that then stand for nothing.
func trimQuota(ctx context.Context, c *client.Client, base string) error {
	for _, p := range []string{join(base, limitsNode), join(base, statsNode)} {
		if err := c.Delete(ctx, p, client.AnyVersion); err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
	for base != quotaRoot {
		err := c.Delete(ctx, base, client.AnyVersion)
		if errors.Is(err, client.ErrNotEmpty) {
			return nil
		}
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
		base = base[:strings.LastIndexByte(base, '/')]
	}
	return nil
}
