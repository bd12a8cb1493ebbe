package livetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/internal/testport"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// wires are both, for tests that hold on either.
var wires = []client.Wire{client.ZooKeeper, client.GRPC}

// TestOwnServer runs every operation against a server of ours in this process, on both wires.
func TestOwnServer(t *testing.T) {
	addr := startEnsemble(t, 1).addrs[0]
	for _, w := range wires {
		t.Run(w.String(), func(t *testing.T) { exerciseServer(t, addr, w) })
	}
}

// ensemble is a number of servers in this process.
type ensemble struct {
	t       testing.TB
	addrs   []string
	configs []*config.Config
	servers []*server.Server
}

func startEnsemble(t testing.TB, n int) *ensemble {
	t.Helper()
	e := &ensemble{t: t, servers: make([]*server.Server, n)}
	dir := t.TempDir()
	ports := testport.Reserve(t, 3*n)
	var lines strings.Builder
	for i := range n {
		if n > 1 {
			fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[3*i], ports[3*i+1])
		}
		e.addrs = append(e.addrs, fmt.Sprintf("127.0.0.1:%d", ports[3*i+2]))
	}
	for i := range n {
		data := filepath.Join(dir, fmt.Sprint(i+1))
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		cfg := fmt.Sprintf("tickTime=200\ninitLimit=50\nsyncLimit=25\nsilenceLimit=5000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nextendedTypesEnabled=true\n%s",
			data, ports[3*i+2], lines.String())
		file := filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1))
		if err := errors.Join(os.WriteFile(file, []byte(cfg), 0o600), os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600)); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, config.Flags{})
		if err != nil {
			t.Fatal(err)
		}
		e.configs = append(e.configs, c)
		e.start(i)
	}
	t.Cleanup(func() {
		for i := range e.servers {
			e.stop(i)
		}
	})
	for i := range n {
		e.serves(i)
	}
	return e
}

// serves waits until a server serves clients. A new one does not count towards a quorum before that.
func (e *ensemble) serves(i int) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.addrs[i], client.Options{})
	if err != nil {
		e.t.Fatalf("server %d does not serve: %v", i+1, err)
	}
	_ = c.Close() // the session may as well run out
}

func (e *ensemble) start(i int) {
	e.t.Helper()
	s, err := server.New(e.configs[i], server.Options{Log: testLog(e.t, fmt.Sprintf("server %d", i+1))})
	if err != nil {
		e.t.Fatal(err)
	}
	s.Start()
	e.servers[i] = s
}

func (e *ensemble) stop(i int) {
	if s := e.servers[i]; s != nil {
		e.servers[i] = nil
		if err := s.Close(); err != nil {
			e.t.Errorf("server %d: %v", i+1, err)
		}
	}
}

// testLog logs to the file that ZK_TEST_LOG names, if any.
func testLog(t testing.TB, who string) zerolog.Logger {
	name := os.Getenv("ZK_TEST_LOG")
	if name == "" {
		return zerolog.Nop()
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return zerolog.New(f).With().Timestamp().Str("who", who).Logger()
}

// C3, C20: one server after the other goes and comes back; the sessions move, with their ephemerals and watches, and
// what was read never goes back.
func TestSessionsSurviveARollingRestart(t *testing.T) {
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var clients []*client.Client
	for _, w := range wires {
		c, err := client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{Wire: w, SessionTimeout: 20 * time.Second, Log: testLog(t, w.String())})
		if err != nil {
			t.Fatal(err)
		}
		defer closeClient(t, c)
		clients = append(clients, c)
		name := fmt.Sprintf("/node-%v", w)
		if _, err := c.Create(ctx, name, []byte("0"), client.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(ctx, name+"-e", nil, client.Ephemeral); err != nil {
			t.Fatal(err)
		}
	}
	for round := range e.servers {
		var watches []*client.Watch
		for i, w := range wires {
			_, _, watch, err := retry(ctx, func() (got []byte, st client.Stat, w2 *client.Watch, err error) {
				return clients[i].GetW(ctx, fmt.Sprintf("/node-%v", w))
			})
			if err != nil {
				t.Fatal(err)
			}
			watches = append(watches, watch)
		}
		e.stop(round)
		for i, w := range wires {
			// The other wire's client writes; a lost reply is settled by the version.
			name := fmt.Sprintf("/node-%v", w)
			for {
				_, err := clients[1-i].Set(ctx, name, fmt.Append(nil, round+1), int32(round))
				if err == nil || errors.Is(err, client.ErrBadVersion) && round+1 == version(ctx, t, clients[1-i], name) {
					break
				}
				if !errors.Is(err, client.ErrConnectionLoss) {
					t.Fatal(err)
				}
			}
		}
		for i, w := range wires {
			name := fmt.Sprintf("/node-%v", w)
			select {
			case ev := <-watches[i].C:
				if ev.Type != client.EventDataChanged || ev.Path != name {
					t.Errorf("round %d: event %+v", round, ev)
				}
			case <-ctx.Done():
				t.Fatalf("round %d: no event on %s", round, name)
			}
			_, st, _, err := retry(ctx, func() ([]byte, client.Stat, *client.Watch, error) {
				d, st, err := clients[i].Get(ctx, name+"-e")
				return d, st, nil, err
			})
			if err != nil || st.EphemeralOwner != clients[i].Session().ID {
				t.Errorf("round %d: the ephemeral of %v: %+v, %v", round, w, st, err)
			}
			if v := version(ctx, t, clients[i], name); v != round+1 {
				t.Errorf("round %d: %v reads version %d behind its event", round, w, v)
			}
		}
		e.start(round)
		e.serves(round)
	}
}

// retry repeats a read that was lost with a connection.
func retry(ctx context.Context, read func() ([]byte, client.Stat, *client.Watch, error)) ([]byte, client.Stat, *client.Watch, error) {
	for {
		d, st, w, err := read()
		if !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil {
			return d, st, w, err
		}
	}
}

func version(ctx context.Context, t testing.TB, c *client.Client, path string) int {
	t.Helper()
	_, st, _, err := retry(ctx, func() ([]byte, client.Stat, *client.Watch, error) {
		d, st, err := c.Get(ctx, path)
		return d, st, nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Version)
}
