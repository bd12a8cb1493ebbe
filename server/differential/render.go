package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// renderer turns frames of one run into lines that two servers can be compared by.
type renderer struct {
	env
	sessions map[int64]string // names of the session ids of this run
	sortACL  bool
	clock    clock
}

// clock checks what cannot be compared: one zxid has one time, and a later one is not earlier.
type clock struct{ times map[int64]int64 }

// see notes that zxid was made at a time; it returns what is wrong with that.
func (c *clock) see(zxid, at int64) string {
	if zxid <= 0 {
		return ""
	}
	if c.times == nil {
		c.times = map[int64]int64{}
	}
	old, ok := c.times[zxid]
	c.times[zxid] = at
	switch {
	case ok && old != at:
		return " TIME-OF-ZXID-DIFFERS"
	case ok:
		return ""
	}
	for z, t := range c.times {
		if z < zxid && t > at || z > zxid && t < at {
			return " TIME-GOES-BACK"
		}
	}
	return ""
}

func (r *renderer) text(s string) string { return strings.ReplaceAll(s, r.root, "~") }

func (r *renderer) string(s jute.String) string {
	if s.Null {
		return "null"
	}
	return fmt.Sprintf("%q", r.text(s.Value))
}

func (r *renderer) bytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func (r *renderer) names(v []string) string {
	if v == nil {
		return "null"
	}
	out := make([]string, len(v))
	for i, s := range v {
		out[i] = r.text(s)
	}
	slices.Sort(out)
	return fmt.Sprintf("%q", out)
}

// zxid is a zxid as programs see it: +n counted from the root's; what is older is as old on both sides only if both have
// run the same programs, which the driver sees to.
func (r *renderer) zxid(z int64) string {
	switch {
	case z <= 0:
		return fmt.Sprintf("%d", z)
	case z < r.base:
		return "old"
	}
	return fmt.Sprintf("+%d", z-r.base)
}

func (r *renderer) stat(s *jute.Stat) string {
	owner := "0"
	if s.EphemeralOwner != 0 {
		owner = "unknown"
		if n, ok := r.sessions[s.EphemeralOwner]; ok {
			owner = n
		}
	}
	times := r.clock.see(s.Czxid, s.Ctime)
	if s.Mzxid != s.Czxid || s.Mtime != s.Ctime {
		times += r.clock.see(s.Mzxid, s.Mtime)
	}
	return fmt.Sprintf("{c%s m%s p%s v%d cv%d av%d own=%s len=%d n=%d%s}", r.zxid(s.Czxid), r.zxid(s.Mzxid), r.zxid(s.Pzxid),
		s.Version, s.Cversion, s.Aversion, owner, s.DataLength, s.NumChildren, times)
}

func (r *renderer) acl(v []jute.ACL) string {
	if v == nil {
		return "null"
	}
	out := make([]string, len(v))
	for i := range v {
		out[i] = fmt.Sprintf("%d:%s:%s", v[i].Perms, r.string(v[i].Scheme), r.string(v[i].ID))
	}
	if r.sortACL {
		slices.Sort(out)
	}
	return "[" + strings.Join(out, " ") + "]"
}

func (r *renderer) event(h jute.ReplyHeader, e *jute.WatcherEvent) string {
	return fmt.Sprintf("event %s %s state=%d err=%d z=%s", e.Type, r.string(e.Path), e.State, h.Err, r.zxid(h.Zxid))
}

// reply is the line of a reply. body is what came after the header.
func (r *renderer) reply(op jute.OpCode, h jute.ReplyHeader, body []byte) string {
	head := fmt.Sprintf("%s: %s z=%s", op, h.Err.Name(), r.zxid(h.Zxid))
	rec := jute.NewResponse(op)
	if h.Err != 0 && (op != jute.OpMultiRead || len(body) == 0) || rec == nil {
		if len(body) > 0 {
			return fmt.Sprintf("%s unexpected body %x", head, body)
		}
		return head
	}
	d := jute.NewDecoder(body)
	rec.Decode(d)
	if d.Err() != nil || len(d.Rest()) > 0 {
		return fmt.Sprintf("%s body does not decode: %x", head, body)
	}
	return head + " " + r.body(rec)
}

func (r *renderer) body(rec jute.Record) string {
	switch v := rec.(type) {
	case *jute.CreateResponse:
		return r.string(v.Path)
	case *jute.Create2Response:
		return r.string(v.Path) + " " + r.stat(&v.Stat)
	case *jute.StatResponse:
		return r.stat(&v.Stat)
	case *jute.GetDataResponse:
		return r.bytes(v.Data) + " " + r.stat(&v.Stat)
	case *jute.GetACLResponse:
		return r.acl(v.ACL) + " " + r.stat(&v.Stat)
	case *jute.GetChildrenResponse:
		return r.names(v.Children)
	case *jute.GetChildren2Response:
		return r.names(v.Children) + " " + r.stat(&v.Stat)
	case *jute.MultiResponse:
		out := make([]string, len(v.Results))
		for i := range v.Results {
			out[i] = r.result(&v.Results[i])
		}
		return "[" + strings.Join(out, "; ") + "]"
	case *jute.GetSASLRequest:
		return r.bytes(v.Token)
	case *jute.GetEphemeralsResponse:
		return r.names(v.Ephemerals)
	case *jute.GetAllChildrenNumberResponse:
		return fmt.Sprint(v.TotalNumber)
	case *jute.ErrorResponse:
		return fmt.Sprint(int32(v.Err))
	case *jute.WhoAmIResponse:
		out := make([]string, len(v.ClientInfo))
		for i, c := range v.ClientInfo {
			out[i] = r.string(c.AuthScheme) + "/" + r.string(c.User)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	return fmt.Sprintf("%+v", rec)
}

func (r *renderer) result(o *jute.OpResult) string {
	switch o.Type {
	case jute.OpCreate:
		return "create " + r.string(o.Path)
	case jute.OpCreate2:
		return "create2 " + r.string(o.Path) + " " + r.stat(&o.Stat)
	case jute.OpSetData:
		return "setData " + r.stat(&o.Stat)
	case jute.OpGetData:
		return "getData " + r.bytes(o.Data) + " " + r.stat(&o.Stat)
	case jute.OpGetChildren:
		return "getChildren " + r.names(o.Children)
	case jute.OpError:
		return o.Err.Name()
	}
	return o.Type.String()
}
