package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// rawConn speaks the client wire without any of a client's habits: what is sent is what the test says, and what comes
// back is seen as it comes.
type rawConn struct {
	t       testing.TB
	c       net.Conn
	r       *jute.FrameReader
	sendMu  sync.Mutex
	xid     int32
	session int64
	passwd  []byte
	timeout time.Duration
}

// frame is what the server sent: a reply or an event.
type frame struct {
	header jute.ReplyHeader
	body   []byte
	event  *jute.WatcherEvent
}

var errRefused = errors.New("session refused")

// dialRaw opens a connection and a session on it: a new one, or the session of old.
func dialRaw(t testing.TB, addr string, timeout time.Duration, old *rawConn) (*rawConn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	r := &rawConn{t: t, c: c, r: jute.NewFrameReader(c, 64<<20)}
	req := jute.ConnectRequest{TimeOut: int32(timeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		req.SessionID, req.Passwd = old.session, old.passwd
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	b, at := jute.BeginFrame(nil)
	if _, err := c.Write(jute.EndFrame(req.Append(b), at)); err != nil {
		c.Close()
		return nil, err
	}
	body, err := r.r.Next()
	if err != nil {
		c.Close()
		return nil, err
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(body)
	resp.Decode(d)
	if err := d.Err(); err != nil {
		c.Close()
		return nil, err
	}
	if resp.TimeOut <= 0 {
		c.Close()
		return nil, errRefused
	}
	_ = c.SetDeadline(time.Time{})
	r.session, r.passwd, r.timeout = resp.SessionID, append([]byte(nil), resp.Passwd...), time.Duration(resp.TimeOut)*time.Millisecond
	return r, nil
}

// mustDial tries until a session is there.
func mustDial(t testing.TB, addr string, timeout time.Duration) *rawConn {
	t.Helper()
	var r *rawConn
	until(t, "a session on "+addr, func() (ok bool) {
		var err error
		r, err = dialRaw(t, addr, timeout, nil)
		return err == nil
	})
	t.Cleanup(func() { r.c.Close() })
	return r
}

// appendRequest appends a whole frame.
func (r *rawConn) appendRequest(b []byte, op jute.OpCode, rec jute.Record) ([]byte, int32) {
	xid := int32(-2)
	if op != jute.OpPing {
		r.xid++
		xid = r.xid
	}
	b, at := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: xid, Type: op}
	b = h.Append(b)
	if rec != nil {
		b = rec.Append(b)
	}
	return jute.EndFrame(b, at), xid
}

func (r *rawConn) send(op jute.OpCode, rec jute.Record) (int32, error) {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	b, xid := r.appendRequest(nil, op, rec)
	_, err := r.c.Write(b)
	return xid, err
}

// recv reads the next frame; a limit of zero waits as long as the connection lasts.
func (r *rawConn) recv(limit time.Duration) (frame, error) {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	_ = r.c.SetReadDeadline(deadline)
	body, err := r.r.Next()
	if err != nil {
		return frame{}, err
	}
	var f frame
	d := jute.NewDecoder(append([]byte(nil), body...))
	f.header.Decode(d)
	if d.Err() == nil && f.header.Xid == -1 {
		f.event = &jute.WatcherEvent{}
		f.event.Decode(d)
	}
	f.body = d.Rest()
	return f, d.Err()
}

// call sends one request and waits for its reply, passing over events.
func (r *rawConn) call(op jute.OpCode, rec, resp jute.Record) (jute.ReplyHeader, error) {
	xid, err := r.send(op, rec)
	if err != nil {
		return jute.ReplyHeader{}, err
	}
	for {
		f, err := r.recv(patience)
		if err != nil {
			return jute.ReplyHeader{}, err
		}
		if f.event != nil {
			continue
		}
		if f.header.Xid != xid {
			return f.header, fmt.Errorf("reply to %d, want %d", f.header.Xid, xid)
		}
		if f.header.Err == 0 && resp != nil {
			d := jute.NewDecoder(f.body)
			resp.Decode(d)
			return f.header, d.Err()
		}
		return f.header, nil
	}
}

// must is call for what has to succeed.
func (r *rawConn) must(op jute.OpCode, rec, resp jute.Record) jute.ReplyHeader {
	r.t.Helper()
	h, err := r.call(op, rec, resp)
	if err != nil || h.Err != 0 {
		r.t.Fatalf("%v: %v %v", op, h.Err, err)
	}
	return h
}

var openACL = []jute.ACL{{Perms: 31, Scheme: jute.Str("world"), ID: jute.Str("anyone")}}

func create(path, data string) *jute.CreateRequest {
	return &jute.CreateRequest{Path: jute.Str(path), Data: []byte(data), ACL: openACL}
}

func set(path, data string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: jute.Str(path), Data: []byte(data), Version: -1}
}

func get(path string, watch bool) *jute.GetDataRequest {
	return &jute.GetDataRequest{Path: jute.Str(path), Watch: watch}
}
