package front

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
)

// record encodes a request as an old client does, without this project's encoder: strings and buffers with a length
// (null: -1), vectors as their elements behind a count.
func record(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case nil:
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
		case int: // of four bytes
			b = binary.BigEndian.AppendUint32(b, uint32(int32(v)))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case bool:
			b = append(b, 0)
			if v {
				b[len(b)-1] = 1
			}
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case []byte:
			b = append(b, v...)
		default:
			panic("record: no such type")
		}
	}
	return b
}

// What the clients of old releases call things.
const (
	opCreate, opDelete, opExists, opGetData, opSetData = 1, 2, 3, 4, 5
	opGetChildren, opSync, opPing, opGetChildren2      = 8, 9, 11, 12
	opCheck, opMulti, opCreate2, opReconfig            = 13, 14, 15, 16
	opCheckWatches, opRemoveWatches                    = 17, 18
	opCreateContainer, opCreateTTL                     = 19, 21
	opSetWatches, opCloseSession                       = 101, -11

	statSize = 4*8 + 3*4 + 8 + 2*4 + 8
)

// openList is the vector with the one entry that everybody may do everything.
var openList = record(1, 31, "world", "anyone")

// oldConnect says hello. release 3.3 and older know no readOnly: neither they nor the answer has it.
func (c *client) oldConnect(readOnly bool, lastZxid, session int64, passwd []byte) {
	c.t.Helper()
	hello := record(0, lastZxid, 10000, session, string(passwd))
	size := 36
	if readOnly {
		hello, size = append(hello, 0), 37
	}
	c.send(hello)
	b := c.frame()
	if len(b) != size || !bytes.Equal(b[:8], record(0, 10000)) || !bytes.Equal(b[16:20], record(16)) {
		c.t.Fatalf("the answer to the connect request is %x", b)
	}
	if readOnly && b[36] != 0 {
		c.t.Fatal("read-only")
	}
	c.sid, c.pw = int64(binary.BigEndian.Uint64(b[8:])), b[20:36]
}

// ask sends a request and compares the reply's error and the whole of its body; a stat in it is written as nothing
// between: body ends where the stat begins, and rest is how many bytes follow.
func (c *client) ask(op int, body []byte, code int, want []byte, rest int) {
	c.t.Helper()
	c.xid++
	c.send(append(record(int(c.xid), op), body...))
	r := c.want(c.xid, jute.ErrorCode(code))
	if len(r.body) != len(want)+rest || !bytes.Equal(r.body[:len(want)], want) {
		c.t.Fatalf("op %d: the body is %x, want %x and %d bytes", op, r.body, want, rest)
	}
}

// TestOldClients: what clients of 3.3 to 3.5 send, byte for byte, and what they can read.
func TestOldClients(t *testing.T) {
	for _, release := range []string{"3.3", "3.4", "3.5"} {
		t.Run(release, func(t *testing.T) {
			s := start(t, nil)
			hasReadOnly := release != "3.3"
			c := s.dial()
			c.oldConnect(hasReadOnly, 0, 0, make([]byte, 16))

			c.ask(opCreate, record("/a", "x", openList, 0), 0, record("/a"), 0) // a path, no stat
			c.ask(opCreate, record("/a", "x", openList, 0), -110, nil, 0)
			c.ask(opCreate, record("/a/s-", nil, openList, 3), 0, record("/a/s-0000000000"), 0)
			c.ask(opExists, record("/a", false), 0, nil, statSize)
			c.ask(opExists, record("/later", true), -101, nil, 0)
			c.ask(opGetData, record("/a", true), 0, record("x"), statSize)
			c.ask(opGetChildren, record("/a", true), 0, record(1, "s-0000000000"), 0)
			c.ask(opGetChildren2, record("/a", false), 0, record(1, "s-0000000000"), statSize)
			c.ask(opSync, record("/a"), 0, record("/a"), 0)

			// The ping of all releases, and its reply without a body.
			c.send(record(-2, opPing))
			if r := c.want(-2, 0); len(r.body) != 0 {
				t.Fatalf("ping: %x", r.body)
			}
			if release != "3.3" {
				c.ask(opMulti, record(
					opCheck, false, -1, "/a", 0,
					opCreate, false, -1, "/m", "1", openList, 0,
					opDelete, false, -1, "/m", 0,
					-1, true, -1,
				), 0, record(
					opCheck, false, 0,
					opCreate, false, 0, "/m",
					opDelete, false, 0,
					-1, true, -1), 0)
				c.ask(opMulti, record(
					opSetData, false, -1, "/a", "y", 7,
					opDelete, false, -1, "/none", -1,
					-1, true, -1,
				), 0, record(
					-1, false, -103, -103,
					-1, false, -2, -2,
					-1, true, -1), 0)
			}
			if release == "3.5" {
				c.ask(opCreate2, record("/c2", "x", openList, 0), 0, record("/c2"), statSize)
				c.ask(opCreateContainer, record("/box", "", openList, 4), 0, record("/box"), statSize)
				c.ask(opCreateTTL, record("/ttl", "", openList, 5, int64(100000)), 0, record("/ttl"), statSize)
				c.ask(opExists, record("/c2", true), 0, nil, statSize)
				c.ask(opCheckWatches, record("/c2", 2), 0, nil, 0)
				c.ask(opRemoveWatches, record("/c2", 2), 0, nil, 0)
				c.ask(opRemoveWatches, record("/c2", 3), -121, nil, 0)
				c.ask(opReconfig, record(nil, nil, nil, int64(-1)), -123, nil, 0)
			}

			// Another client changes things while this one is away; its watches are told of that when it is back.
			r := c.call(jute.OpGetData, get("/a", false))
			seen := r.Zxid
			_ = c.c.Close()
			other := s.session()
			other.call(jute.OpSetData, set("/a", "z"))
			other.call(jute.OpCreate, create("/later", "", 0))
			again := s.dial()
			again.oldConnect(hasReadOnly, seen, c.sid, c.pw)
			if again.sid != c.sid || !bytes.Equal(again.pw, c.pw) {
				t.Fatal("another session")
			}
			again.send(append(record(-8, opSetWatches), record(seen, 1, "/a", 1, "/later", 1, "/a")...))
			events := map[string]bool{}
			for len(events) < 2 {
				f := again.frame() // xid -1, a zxid, no error; type, state 3, path
				if len(f) < 24 || !bytes.Equal(f[:4], record(-1)) || !bytes.Equal(f[12:16], record(0)) || !bytes.Equal(f[20:24], record(3)) {
					t.Fatalf("event %x", f)
				}
				events[string(f[16:20])+string(f[24:])] = true
			}
			if !events[string(record(3, "/a"))] || !events[string(record(1, "/later"))] {
				t.Fatalf("events %v", events)
			}
			if r := again.want(-8, 0); len(r.body) != 0 {
				t.Fatalf("setWatches: %x", r.body)
			}
			other.call(jute.OpCreate, create("/a/new", "", 0)) // armed anew
			if e := again.event(); e.Path.Value != "/a" || e.Type != 4 {
				t.Fatalf("%+v", e)
			}
			again.xid = 100
			again.ask(opCloseSession, nil, 0, nil, 0)
			again.closed()
		})
	}
}
