package recipe

import (
	"context"
	"net/url"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// Group is a set of members, each an ephemeral node below a path, as those of Curator's GroupMember: the node's name is
// the member's id, its data are the member's. Whoever runs it sees all members; with an id it is one of them.
type Group struct {
	path string
	own  *KeptNode // nil: not a member
	all  *Cache
}

// Member is a member of a Group.
type Member struct {
	ID    string // as its Group was named with
	Data  []byte // not to be changed
	Token int64  // the zxid that created its node: larger for whoever came later
}

// NewGroup names a group, and who joins it: an id that nobody else has, or none (""), which only looks on. It does nothing
// until Run. The path is used for the group only.
func NewGroup(path, id string, data []byte, o Options) *Group {
	g := &Group{path: path, all: NewChildrenCache(path)}
	if id != "" {
		g.own = NewKeptNode(child(path, nodeName(id)), data, o)
	}
	return g
}

// nodeName makes a node's name of any string but the empty one: as it is, but for "/", "%" and what would be no name.
func nodeName(s string) string {
	s = strings.NewReplacer("%", "%25", "/", "%2F", "\x00", "%00").Replace(s)
	if strings.Trim(s, ".") == "" {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return s
}

// realName is what nodeName was given.
func realName(name string) string {
	if s, err := url.PathUnescape(name); err == nil {
		return s
	}
	return name
}

// Run is a member, and follows the others, until ctx or the session ends: in the next one call it again, or let Sessions
// do it. During a disconnect it stays a member as long as its session lives; when ctx ends it leaves. If somebody else has
// a member of this id it waits for its end. Errors: what ended ctx, client.ErrSessionExpired, or those of client.Create.
func (g *Group) Run(ctx context.Context, c *client.Client) error {
	if g.own == nil {
		return g.all.Run(ctx, c)
	}
	return Together(ctx, c, g.own.Run, g.all.Run)
}

// SetData changes this member's data, as KeptNode.Set.
func (g *Group) SetData(data []byte) {
	if g.own != nil {
		g.own.Set(data)
	}
}

// Joined returns once this member has been there with its newest data, as KeptNode.Wait; at once for who only looks on.
func (g *Group) Joined(ctx context.Context) error {
	if g.own == nil {
		return nil
	}
	return g.own.Wait(ctx)
}

// Members are those last seen, by node name. During an outage they stay as they were: Cache().Synced tells.
func (g *Group) Members() []Member {
	var all []Member
	for _, n := range g.all.Children(g.path) {
		all = append(all, Member{ID: realName(n.Path[strings.LastIndexByte(n.Path, '/')+1:]), Data: n.Data, Token: n.Stat.Czxid})
	}
	return all
}

// Cache is the picture of the group's nodes, for Watch, Synced and WaitSynced.
func (g *Group) Cache() *Cache { return g.all }
