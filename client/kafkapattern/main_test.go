package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The processes of the show are those of the test's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "broker") {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// H5: the leader is one of those in sync, there is none rather than another one, and what is as it should be is left alone.
func TestPlan(t *testing.T) {
	alive := func(ids ...int) map[int]bool {
		live := map[int]bool{}
		for _, id := range ids {
			live[id] = true
		}
		return live
	}
	p := func(leader, epoch int, isr ...int) partition {
		return partition{Replicas: []int{0, 1, 2}, Leader: leader, LeaderEpoch: epoch, InSync: isr}
	}
	for _, tt := range []struct {
		name      string
		was       partition
		live      map[int]bool
		want      partition
		unchanged bool
	}{
		{"new", p(nobody, 0, 0, 1, 2), alive(0, 1, 2), p(0, 1, 0, 1, 2), false},
		{"nothing happened", p(0, 1, 0, 1, 2), alive(0, 1, 2), p(0, 1, 0, 1, 2), true},
		{"a follower is gone", p(0, 1, 0, 1, 2), alive(0, 2, 3), p(0, 1, 0, 2), false},
		{"the leader is gone", p(0, 1, 0, 1, 2), alive(1, 2), p(1, 2, 1, 2), false},
		{"back: the leader stays", p(1, 2, 1, 2), alive(0, 1, 2), p(1, 2, 1, 2, 0), false},
		{"only one that is not in sync lives", p(0, 3, 0), alive(1, 2), p(nobody, 4, 0), false},
		{"and it stays so", p(nobody, 4, 0), alive(1, 2), p(nobody, 4, 0), true},
		{"until the last one in sync is back", p(nobody, 4, 0), alive(0, 1), p(0, 5, 0, 1), false},
		{"nobody lives", p(1, 2, 1, 2), alive(), p(nobody, 3, 1, 2), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was := slices.Clone(tt.was.InSync)
			got, changed := plan(tt.was, tt.live)
			if got.Leader != tt.want.Leader || got.LeaderEpoch != tt.want.LeaderEpoch || !slices.Equal(got.InSync, tt.want.InSync) || changed == tt.unchanged {
				t.Errorf("%+v, changed: %v; want %+v", got, changed, tt.want)
			}
			if !slices.Equal(tt.was.InSync, was) {
				t.Errorf("the plan wrote into what it was given: %v", tt.was.InSync)
			}
		})
	}
}

// text is written by several processes' readers.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.buf.Write(b)
}

// The show, of which ZKSERVER_FULL=1 has all faults: H2, H3, H5, H7.
func TestShow(t *testing.T) {
	var out text
	s := show{brokers: 4, partitions: 4, timeout: 2 * time.Second, short: os.Getenv("ZKSERVER_FULL") == "", out: &out}
	err := s.run(t.Context())
	said := out.buf.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{"survived:", "fenced: a late write", "leads partition", "registered"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %q", want)
		}
	}
	for _, bad := range []string{"NOT FENCED", "REFUSED"} {
		if strings.Contains(said, bad) {
			t.Errorf("said: %q", bad)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + said)
	}
}
