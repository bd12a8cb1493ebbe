package front

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

func connectFrame(change func(r *jute.ConnectRequest)) []byte {
	r := jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}
	if change != nil {
		change(&r)
	}
	return r.Append(nil)
}

func TestConnectForms(t *testing.T) {
	s := start(t, nil)
	tests := []struct {
		name    string
		change  func(r *jute.ConnectRequest)
		tail    string
		timeout int32
		size    int
	}{
		{"new form", nil, "", 10000, 37},
		{"old form", func(r *jute.ConnectRequest) { r.HasReadOnly = false }, "", 10000, 36},
		{"readOnly", func(r *jute.ConnectRequest) { r.ReadOnly = true }, "", 10000, 37},
		{"bytes behind", nil, "more", 10000, 37},
		{"version 7", func(r *jute.ConnectRequest) { r.ProtocolVersion = 7 }, "", 10000, 37},
		{"null password", func(r *jute.ConnectRequest) { r.Passwd = nil }, "", 10000, 37},
		{"short password", func(r *jute.ConnectRequest) { r.Passwd = []byte("abcd") }, "", 10000, 37},
		{"timeout 1", func(r *jute.ConnectRequest) { r.TimeOut = 1 }, "", 2000, 37},
		{"timeout -5", func(r *jute.ConnectRequest) { r.TimeOut = -5 }, "", 2000, 37},
		{"timeout 1e9", func(r *jute.ConnectRequest) { r.TimeOut = 1e9 }, "", 20000, 37},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial()
			c.send(append(connectFrame(tt.change), tt.tail...))
			b := c.frame()
			var r jute.ConnectResponse
			r.Decode(jute.NewDecoder(b))
			if len(b) != tt.size || r.TimeOut != tt.timeout || r.SessionID == 0 || r.ProtocolVersion != 0 || r.ReadOnly {
				t.Fatalf("%d bytes, %+v", len(b), r)
			}
			if len(r.Passwd) != 16 || bytes.Equal(r.Passwd, make([]byte, 16)) {
				t.Fatalf("password %x", r.Passwd)
			}
			_ = c.c.Close()
		})
	}
}

func TestConnectRefused(t *testing.T) {
	s := start(t, nil)
	good := connectFrame(nil)
	tests := []struct {
		name string
		raw  []byte
	}{
		{"ahead", frameOf(connectFrame(func(r *jute.ConnectRequest) { r.LastZxidSeen = 1 << 40 }))},
		{"empty", frameOf(nil)},
		{"cut", frameOf(good[:16])},
		{"password beyond the frame", frameOf(append(append([]byte{}, good[:24]...), 0, 0, 3, 0xe8))},
		{"negative password", frameOf(append(append([]byte{}, good[:24]...), 0xff, 0xff, 0xff, 0xfe))},
		{"negative length", []byte{0xff, 0xff, 0xff, 0xff}},
		{"too long", []byte{0, 0x10, 0, 0}},
		{"longest", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"unknown word", []byte("abcd")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial()
			c.raw(tt.raw)
			c.closed()
		})
	}
	if n := s.b.LastApplied(); n != 0 {
		t.Fatalf("a refused connect took zxid %d", n)
	}
}

// A wrong password disturbs nobody; a right one takes the session over, also from a connection of this server.
func TestReattach(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	wrong := s.dial()
	wrong.attach(jute.ConnectRequest{TimeOut: 4000, SessionID: c.sid, Passwd: bytes.Repeat([]byte{1}, 16), HasReadOnly: true})
	if wrong.sid != 0 || !bytes.Equal(wrong.pw, make([]byte, 16)) || wrong.resp.TimeOut != 0 {
		t.Fatalf("refusal %+v", wrong.resp)
	}
	wrong.closed()
	c.ping()

	again := s.dial()
	again.attach(jute.ConnectRequest{TimeOut: 4000, SessionID: c.sid, Passwd: c.pw, HasReadOnly: false})
	if again.sid != c.sid || !bytes.Equal(again.pw, c.pw) || again.resp.TimeOut != 4000 || again.resp.HasReadOnly {
		t.Fatalf("response %+v", again.resp)
	}
	c.closed()
	again.call(jute.OpCreate, create("/e", "", 1))
	if a, ok := s.f.Addrs()[0].(*net.TCPAddr); !ok || a.Port == 0 {
		t.Fatal("no port")
	}
}

func TestBadFrames(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxBuffer = 1000 })
	for name, raw := range map[string][]byte{
		"negative length": {0xff, 0xff, 0xff, 0xfe},
		"too long":        {0, 0, 3, 0xe9},
		"empty":           {0, 0, 0, 0},
		"half a header":   {0, 0, 0, 4, 0, 0, 0, 1},
		"a word":          []byte("ruok"),
		"bad auth":        frameOf(append(request(-4, jute.OpAuth, nil), 0, 0, 0, 0)),
		"bad sasl":        frameOf(append(request(1, jute.OpSASL, nil), 0, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			c := s.session()
			c.raw(raw)
			c.closed()
		})
	}
	// The longest frame that is allowed, in many pieces.
	c := s.session()
	body := request(1, jute.OpSetData, set("/", ""))
	body = append(body, make([]byte, 1000-len(body))...)
	frame := frameOf(body)
	for len(frame) > 0 {
		n := min(7, len(frame))
		c.raw(frame[:n])
		frame = frame[n:]
	}
	c.want(1, 0)
}

func TestHandshakeDeadline(t *testing.T) {
	const handshake = 500 * time.Millisecond // the session below must be made in it, however busy the machine is
	s := start(t, func(o *Options) { o.Handshake = handshake })
	slow := map[string]*client{}
	for name, raw := range map[string][]byte{
		"nothing": nil, "half a word": []byte("ru"), "a length": {0, 0, 0, 45}, "half a frame": {0, 0, 0, 45, 0, 0, 0},
		"stmk without its mask": []byte("stmk"),
	} {
		slow[name] = s.dial()
		slow[name].raw(raw)
	}
	c := s.session() // to a session it does not apply
	<-time.After(2 * handshake)
	c.ping()
	for name, c := range slow {
		t.Run(name, func(t *testing.T) { c.t = t; c.rest() })
	}
}

func TestConnectionLimits(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxClientConns = 2 })
	c1, c2 := s.session(), s.session()
	c3 := s.dial()
	c3.closed()
	_ = c1.c.Close()
	until(t, "the place", func() bool {
		s.f.mu.Lock()
		defer s.f.mu.Unlock()
		return s.f.total == 1
	})
	s.session()
	c2.ping()
	if s.f.rejected.Load() != 1 {
		t.Fatalf("%d rejected", s.f.rejected.Load())
	}
}

func TestOptions(t *testing.T) {
	s := start(t, nil)
	base := Options{Addrs: []string{"127.0.0.1:0"}, Hub: s.hub, Status: fakeStatus{s.b}}
	for name, change := range map[string]func(o *Options){
		"no hub":             func(o *Options) { o.Hub = nil },
		"no status":          func(o *Options) { o.Status = nil },
		"nothing to hear":    func(o *Options) { o.Addrs = nil },
		"maxbuffer like TLS": func(o *Options) { o.MaxBuffer = 0x16030000 },
		"timeouts":           func(o *Options) { o.MinSession, o.MaxSession = 2, 1 },
		"bad address":        func(o *Options) { o.Addrs = []string{"127.0.0.1:0", "256.0.0.1:1"} },
	} {
		o := base
		change(&o)
		if f, err := New(o); err == nil {
			f.close()
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestConnectWhileNotServing: a client that comes in the moment of an election is served after it; one that comes to a
// server that is cut off is turned away soon.
func TestConnectWhileNotServing(t *testing.T) {
	s := start(t, nil)
	s.b.SetLease(-time.Second)
	body := jute.ConnectRequest{TimeOut: 4000, Passwd: make([]byte, 16), HasReadOnly: true}
	early := s.dial()
	early.send(body.Append(nil))
	<-time.After(20 * time.Millisecond)
	s.b.SetLease(time.Hour)
	d := jute.NewDecoder(early.frame())
	if early.resp.Decode(d); d.Err() != nil || early.resp.SessionID == 0 {
		t.Fatalf("response %+v, %v", early.resp, d.Err())
	}
	s.b.SetLease(-time.Second)
	late := s.dial()
	late.send(body.Append(nil))
	late.closed()
}
