package zktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// startLimit bounds how long a server may take until it serves.
const startLimit = time.Minute

// Server is a server of its own, with a proxy in front of it.
type Server struct {
	o     options
	cfg   *config.Config
	fs    vfs.FS
	proxy *proxy
	run   *server.Server // nil when a Restart has failed
}

type options struct {
	dir   string
	lines []string
	log   zerolog.Logger
}

// Option changes what Start and New start.
type Option func(*options)

// Dir keeps the data in a directory, which is made if need be. Default: in memory, gone with the server. The log is not
// synced: what a server wrote survives the server, not the machine.
func Dir(dir string) Option { return func(o *options) { o.dir = dir } }

// Config adds lines of a zoo.cfg, as "maxSessionTimeout=1000". They win over this package's own: tickTime=100,
// minSessionTimeout=100, maxSessionTimeout=600000, maxClientCnxns=0, extendedTypesEnabled=true.
func Config(lines ...string) Option {
	return func(o *options) { o.lines = append(o.lines, lines...) }
}

// Log gets what the server logs. Default: nowhere.
func Log(l zerolog.Logger) Option { return func(o *options) { o.log = l } }

// Start starts a server that serves when Start returns and is closed when the test ends. What goes wrong fails the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New is Start for those who have no test at hand: a TestMain, an Example. Close ends the server.
func New(opts ...Option) (_ *Server, err error) {
	s := &Server{o: options{log: zerolog.Nop()}}
	for _, o := range opts {
		o(&s.o)
	}
	if err := s.configure(); err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	if s.proxy, err = newProxy(); err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	if err := s.start(); err != nil {
		s.proxy.close()
		return nil, fmt.Errorf("zktest: %w", err)
	}
	return s, nil
}

// configure makes the configuration, by way of a file: there is one way to read one.
func (s *Server) configure() error {
	s.fs = vfs.NewMem()
	data := "/zktest"
	if s.o.dir != "" {
		abs, err := filepath.Abs(s.o.dir)
		if err != nil {
			return err
		}
		data, s.fs = abs, vfs.Default
	}
	lines := []string{
		"clientPort=0", "clientPortAddress=127.0.0.1", "tickTime=100", "minSessionTimeout=100", "maxSessionTimeout=600000",
		"maxClientCnxns=0", "extendedTypesEnabled=true", "forceSync=no", "dataDir=" + data,
	}
	text := strings.Join(append(lines, s.o.lines...), "\n") + "\n"
	dir, err := os.MkdirTemp("", "zktest")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err = os.WriteFile(file, []byte(text), 0o600); err == nil {
		s.cfg, err = config.Load(file, config.Flags{})
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// start runs the server and waits until it has given a session.
func (s *Server) start() error {
	run, err := server.New(s.cfg, server.Options{Log: s.o.log, FS: s.fs, Version: "zktest"})
	if err != nil {
		return err
	}
	run.Start()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	addr := run.ClientAddrs()[0].String()
	c, err := client.Dial(ctx, addr, client.Options{})
	if err != nil {
		return errors.Join(err, run.Close())
	}
	_ = c.Close() // on a busy machine its session is left to the timeout
	s.run = run
	s.proxy.serve(addr)
	return nil
}

// stop ends the server, and all connections with it.
func (s *Server) stop() error {
	s.proxy.serve("")
	s.proxy.cut()
	run := s.run
	s.run = nil
	if run == nil {
		return nil
	}
	return run.Close()
}

// Close ends the server. Sessions that live on find nobody any more: their clients stay disconnected. An error says that
// the server has not ended well, which is a fault of it.
func (s *Server) Close() error {
	err := s.stop()
	s.proxy.close()
	return err
}

// Addr is host:port, for a connection string. It stays the same for the life of the Server.
func (s *Server) Addr() string { return s.proxy.addr() }

// Expire ends a session (ID and Password are looked at), with its ephemeral nodes, as its timeout would: its client
// loses its connection and is told at the next one. When Expire returns the session is over. It may not be called while
// the server is being restarted. It fails when the server does not answer within a minute.
func (s *Server) Expire(session client.Session) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		c, err := client.Dial(ctx, s.run.ClientAddrs()[0].String(), client.Options{Resume: session, SessionTimeout: session.Timeout})
		if errors.Is(err, client.ErrSessionExpired) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("zktest: expire: %w", err)
		}
		_ = c.Close() // its client may have been quicker, so the next round decides
	}
}

// Cut breaks all connections of clients. They may connect again at once; their sessions live.
func (s *Server) Cut() { s.proxy.cut() }

// Pause stops the traffic between clients and the server, both ways, without breaking a connection: what is sent waits
// for Resume. The server goes on, so sessions run out.
func (s *Server) Pause() { s.proxy.pause() }

// Resume ends a Pause.
func (s *Server) Resume() { s.proxy.resume() }

// LoseReply lets the next write of any client (create, delete, set, setACL, multi, reconfig) reach the server, and
// breaks the connection instead of passing on the reply: it has been executed, or refused, and its client cannot know.
// Two calls lose two replies.
func (s *Server) LoseReply() { s.proxy.loseReply() }

// LostReplies is how many replies LoseReply has lost.
func (s *Server) LostReplies() int { return s.proxy.lostReplies() }

// Restart stops the server in good order and starts it again with its data. Meanwhile clients are refused. A server
// that is down gives a session its whole timeout when it is back. After an error there is no server, and Close is all that
// can be called.
func (s *Server) Restart() error {
	if err := s.stop(); err != nil {
		return fmt.Errorf("zktest: restart: %w", err)
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("zktest: restart: %w", err)
	}
	return nil
}
