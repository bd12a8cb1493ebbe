package differential_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/differential"
)

// A fault is planted by a proxy before zkserver: it changes requests or replies as a server with that fault would have
// taken or given them. Each has to be found within a number of seeds.
type fault struct {
	area    string
	request func(h *jute.RequestHeader, body []byte) []byte
	// reply gets the request's opcode, and the body behind the header; nil drops an event.
	reply func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte
}

// patch decodes a body, changes it, and encodes it again; a body that does not decode is left alone.
func patch[T jute.Record](rec T, body []byte, change func(T)) []byte {
	d := jute.NewDecoder(body)
	rec.Decode(d)
	if d.Err() != nil {
		return body
	}
	change(rec)
	return rec.Append(nil)
}

func plantedFaults() []fault {
	return []fault{
		{area: "versions: setData ignores version 0", request: func(h *jute.RequestHeader, body []byte) []byte {
			if h.Type != jute.OpSetData {
				return body
			}
			return patch(&jute.SetDataRequest{}, body, func(r *jute.SetDataRequest) {
				if r.Version == 0 {
					r.Version = -1
				}
			})
		}},
		{area: "ACLs: exists does not need READ", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op == jute.OpExists && h.Err == jute.NoAuth {
				h.Err = jute.NoNode
			}
			return body
		}},
		{area: "sequences: a suffix of ten digits is cut to nine", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op != jute.OpCreate2 || h.Err != 0 {
				return body
			}
			return patch(&jute.Create2Response{}, body, func(r *jute.Create2Response) {
				if n := len(r.Path.Value); n > 10 && r.Path.Value[n-10] == '0' && r.Path.Value[n-2] == '0' {
					r.Path.Value = r.Path.Value[:n-10] + r.Path.Value[n-9:]
				}
			})
		}},
		{area: "multi: operations behind the failed one report OK", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op != jute.OpMulti || h.Err != 0 {
				return body
			}
			return patch(&jute.MultiResponse{}, body, func(r *jute.MultiResponse) {
				for i := range r.Results {
					if r.Results[i].Type == jute.OpError && r.Results[i].Err == jute.RuntimeInconsistency {
						r.Results[i].Err = 0
					}
				}
			})
		}},
		{area: "watches: one event of children in four is lost", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			var e jute.WatcherEvent
			if e.Decode(jute.NewDecoder(body)); h.Xid == jute.XidEvent && e.Type == jute.EventNodeChildrenChanged && h.Zxid%4 == 0 {
				return nil
			}
			return body
		}},
		{area: "recursive watches: set as persistent ones", request: func(h *jute.RequestHeader, body []byte) []byte {
			if h.Type != jute.OpAddWatch {
				return body
			}
			return patch(&jute.AddWatchRequest{}, body, func(r *jute.AddWatchRequest) { r.Mode &^= 1 })
		}},
		{area: "removal of watches: never any there", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op == jute.OpRemoveWatches && h.Err == 0 {
				h.Err = jute.NoWatcher
			}
			return body
		}},
		{area: "Stat: pzxid of setData is the node's mzxid", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op != jute.OpSetData || h.Err != 0 {
				return body
			}
			return patch(&jute.StatResponse{}, body, func(r *jute.StatResponse) {
				if r.Stat.NumChildren > 0 {
					r.Stat.Pzxid = r.Stat.Mzxid
				}
			})
		}},
		{area: "zxids: a failed delete takes none", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op == jute.OpDelete && h.Err == jute.NotEmpty {
				h.Zxid--
			}
			return body
		}},
		{area: "sessions: an ephemeral sequential node outlives its own", request: func(h *jute.RequestHeader, body []byte) []byte {
			if h.Type != jute.OpCreate {
				return body
			}
			return patch(&jute.CreateRequest{}, body, func(r *jute.CreateRequest) {
				if r.Flags == jute.FlagsEphemeralSequential {
					r.Flags = jute.FlagsPersistentSequential
				}
			})
		}},
		{area: "quotas: hard limits are not enforced", request: func(h *jute.RequestHeader, body []byte) []byte {
			if h.Type != jute.OpCreate && h.Type != jute.OpSetData || !bytes.Contains(body, []byte("HardLimit=")) {
				return body
			}
			return bytes.ReplaceAll(body, []byte("HardLimit="), []byte("SoftLimit="))
		}},
		{area: "times: a node is changed before it is made", reply: func(op jute.OpCode, h *jute.ReplyHeader, body []byte) []byte {
			if op != jute.OpGetData || h.Err != 0 {
				return body
			}
			return patch(&jute.GetDataResponse{}, body, func(r *jute.GetDataResponse) {
				if r.Stat.Version > 1 {
					r.Stat.Mtime = r.Stat.Ctime - 1
				}
			})
		}},
	}
}

// TestPlantedFaults starts a pair of servers for each fault, so that one leaves no trace in the next. The proxy alone
// makes no difference.
func TestPlantedFaults(t *testing.T) {
	needServers(t)
	t.Run("none", func(t *testing.T) {
		p := startPair(t)
		p.ours = []string{proxy(t, p.ours[0], fault{})}
		for seed := range uint64(5) {
			if r := p.run(differential.Generate(seed+1, 400)); r.diff != nil || r.errs != [2]error{} {
				t.Fatalf("seed %d: %v, errors %v", seed+1, r.diff, r.errs)
			}
		}
	})
	const seeds = 50
	for _, f := range plantedFaults() {
		t.Run(f.area, func(t *testing.T) {
			p := startPair(t)
			p.ours = []string{proxy(t, p.ours[0], f)}
			for seed := range uint64(seeds) {
				r := p.run(differential.Generate(seed+1, 400))
				if r.errs[0] != nil {
					t.Fatalf("seed %d on apache: %v", seed+1, r.errs[0])
				}
				if r.diff != nil {
					t.Logf("found by seed %d: %v", seed+1, r.diff)
					return
				}
			}
			t.Errorf("not found within %d seeds", seeds)
		})
	}
}

// proxy listens before a server until the test ends, and has no connection then: programs close theirs.
func proxy(t *testing.T, server string, f fault) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		passing.Wait()
	})
	passing.Go(func() { // ends with its listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(c, server, f) }) // ends with its connection
		}
	})
	return l.Addr().String()
}

// pass carries one connection. The opcodes of unanswered requests wait in asked, in their order.
func pass(client net.Conn, server string, f fault) {
	defer client.Close()
	back, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer back.Close()
	var mu sync.Mutex
	var asked []jute.OpCode
	var wg sync.WaitGroup
	wg.Go(func() {
		defer back.Close()
		carry(client, back, func(frame []byte) []byte {
			var h jute.RequestHeader
			h.Decode(jute.NewDecoder(frame))
			body := frame[min(len(frame), jute.RequestHeaderSize):]
			mu.Lock()
			asked = append(asked, h.Type)
			mu.Unlock()
			if f.request != nil {
				body = f.request(&h, body)
			}
			return append(h.Append(nil), body...)
		})
	})
	wg.Go(func() {
		defer client.Close()
		carry(back, client, func(frame []byte) []byte {
			var h jute.ReplyHeader
			h.Decode(jute.NewDecoder(frame))
			body := frame[min(len(frame), jute.ReplyHeaderSize):]
			op := jute.OpNotification
			if h.Xid != jute.XidEvent {
				mu.Lock()
				if len(asked) > 0 {
					op, asked = asked[0], asked[1:]
				}
				mu.Unlock()
			}
			if f.reply != nil {
				if body = f.reply(op, &h, body); body == nil {
					return nil
				}
			}
			return append(h.Append(nil), body...)
		})
	})
	wg.Wait()
}

// carry copies frames; the first of a connection, which opens the session, goes as it is.
func carry(from io.Reader, to io.Writer, change func(frame []byte) []byte) {
	r := jute.NewFrameReader(bufio.NewReader(from), 64<<20)
	for first := true; ; first = false {
		frame, err := r.Next()
		if err != nil {
			return
		}
		out := bytes.Clone(frame)
		if !first {
			if out = change(out); out == nil {
				continue
			}
		}
		b, at := jute.BeginFrame(nil)
		if _, err := to.Write(jute.EndFrame(append(b, out...), at)); err != nil {
			return
		}
	}
}
