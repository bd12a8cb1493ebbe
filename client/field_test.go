package client

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// TestFieldG14EvenShuffle: clients with one list of servers begin evenly with each of them.
func TestFieldG14EvenShuffle(t *testing.T) {
	const clients, servers = 600, 3
	first := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for range clients {
			f := newFakes(t)
			f.setUp(false)
			o := f.options()
			o.KeepOrder = false
			c, err := Dial(t.Context(), "a:1,b:1,c:1", o)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			first[f.dialled()[0]]++
			c.Abandon()
		}
	})
	chi, want := 0.0, float64(clients)/servers
	for _, addr := range []string{"a:1", "b:1", "c:1"} {
		d := float64(first[addr]) - want
		chi += d * d / want
	}
	if chi > 32 { // of two degrees of freedom: once in nine million runs
		t.Errorf("chi-square %.1f: %v", chi, first)
	}
}

// TestFieldG14BadServersArePassed: the good one of several servers is found at once, by each of many clients: one of the
// others does not resolve, one refuses, one accepts and closes.
func TestFieldG14BadServersArePassed(t *testing.T) {
	const clients = 100
	for i := range clients {
		synctest.Test(t, func(t *testing.T) {
			f := newFakes(t)
			f.down["refuses:1"] = true
			o := f.options()
			o.LookupHost = func(_ context.Context, host string) ([]string, error) {
				if host == "unknown" {
					return nil, &net.DNSError{Err: "no such host", Name: host}
				}
				return []string{host}, nil
			}
			go func() { // ends with the good one
				s := f.accept()
				for s.addr != "good:1" {
					_ = s.Close()
					s = f.accept()
				}
				s.welcome()
			}()
			o.NoWait, o.KeepOrder = false, i == 0
			began := time.Now()
			c, err := Dial(t.Context(), "unknown,refuses:1,closes:1,good:1", o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abandon()
			if d := time.Since(began); d > time.Second || c.Server() != "good:1" {
				t.Errorf("connected to %s after %v", c.Server(), d)
			}
			if got, all := f.dialled(), []string{"refuses:1", "closes:1", "good:1"}; len(got) > 3 || i == 0 && !slices.Equal(got, all) {
				t.Errorf("dialled %s", got)
			}
		})
	}
}

// TestFieldG14NamesAreResolvedAnew: a name is asked for at each attempt, so a server that has moved is found.
func TestFieldG14NamesAreResolvedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t)
		o := f.options()
		at := "10.0.0.1" // changed while nobody asks
		o.LookupHost = func(context.Context, string) ([]string, error) { return []string{at}, nil }
		c, err := Dial(t.Context(), "moves:1", o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		s := f.accept()
		s.welcome()
		synctest.Wait()
		at = "10.0.0.2"
		f.down["10.0.0.1:1"] = true
		_ = s.Close()
		s = f.accept()
		s.welcome()
		synctest.Wait()
		if s.addr != "10.0.0.2:1" || c.State() != Connected {
			t.Errorf("connected to %s, %v", s.addr, c.State())
		}
	})
}

// TestFieldG14TimePerTry: servers that accept and say nothing get a share of the session's timeout each, and a
// connection that was there for a while sets the pauses back.
func TestFieldG14TimePerTry(t *testing.T) {
	bubble(t, "a:1,b:1,c:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		var last time.Time
		for i := range 12 {
			s := f.accept()
			if d := time.Since(last); i > 0 && d > fakeTimeoutD()/3+c.o.BackoffMax {
				t.Errorf("try %d began %v after the one before", i, d)
			}
			last = time.Now()
			go s.drain()
		}
		s := f.accept()
		s.welcome()
		time.Sleep(2 * stable)
		f.setUp(false)
		before := len(f.dialled())
		_ = s.Close()
		time.Sleep(time.Second)
		// Rounds begin after at most 0.15, 0.35 and 0.75 s; with the pauses as they had become, one after 0.8 s at least.
		if n := len(f.dialled()) - before; n < 9 {
			t.Errorf("%d attempts in the first second", n)
		}
	})
}
