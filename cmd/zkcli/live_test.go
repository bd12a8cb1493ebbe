package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// signalWriter is closed at the first write.
type signalWriter struct {
	written chan struct{}
	text    strings.Builder
}

func (w *signalWriter) Write(b []byte) (int, error) {
	if w.text.Len() == 0 {
		close(w.written)
	}
	return w.text.Write(b)
}

// TestWatchLive: watch prints events as they come, and ends with the last one asked for.
func TestWatchLive(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/live", nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	said := &signalWriter{written: make(chan struct{})}
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() { // ends with the third event
		ended <- run([]string{"-server", server, "watch", "-r", "-c", "3", "/live"}, os.Getenv, strings.NewReader(""), io.Writer(&out), said)
	}()
	select {
	case <-said.written: // it is armed
	case <-ctx.Done():
		t.Fatal("watch says nothing")
	}
	_, err = c.Multi(ctx, client.SetOp{Path: "/live", Version: -1}, client.CreateOp{Path: "/live/x"}, client.DeleteOp{Path: "/live/x", Version: -1})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("ended with %d: %s", code, said.text.String())
		}
	case <-ctx.Done():
		t.Fatal("watch does not end")
	}
	want := regexp.MustCompile(`^0x[0-9a-f]+ NodeDataChanged /live\n0x[0-9a-f]+ NodeCreated /live/x\n0x[0-9a-f]+ NodeDeleted /live/x\n$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("it prints %q", out.String())
	}
}

// TestRemoveStops: rm -r that is interrupted says how far it came, and leaves the rest.
func TestRemoveStops(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	s := &session{o: options{server: server, timeout: 30 * time.Second, wait: time.Minute}, p: &printer{out: &out, err: &said}}
	c, err := s.client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := c.Create(ctx, "/many", nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ops := make([]client.Op, 500)
		for i := range ops {
			ops[i] = client.CreateOp{Path: "/many/n-", Mode: client.PersistentSequential}
		}
		if _, err := c.Multi(ctx, ops...); err != nil {
			t.Fatal(err)
		}
	}
	in, err := commandNamed("rm").parse([]string{"-r", "/many"})
	if err != nil {
		t.Fatal(err)
	}
	ctrlC, stop := context.WithCancel(ctx)
	s.progress = stop
	if err := remove(ctrlC, s, in); err == nil {
		t.Error("it was not stopped")
	}
	if said.String() != "stopped: nothing deleted\n" {
		t.Errorf("it says %q", said.String())
	}
	said.Reset()
	ctrlC, stop = context.WithCancel(ctx)
	steps := 0
	s.progress = func() {
		if steps++; steps > 1501 { // all are listed, and a transaction is through
			stop()
		}
	}
	if err := remove(ctrlC, s, in); err == nil {
		t.Error("it was not stopped")
	}
	if said.String() != "stopped: 1000 nodes deleted, the rest is there\n" {
		t.Errorf("it says %q", said.String())
	}
	if n, err := c.AllChildrenNumber(ctx, "/many"); err != nil || n != 500 {
		t.Errorf("%d nodes are left, %v", n, err)
	}
}
