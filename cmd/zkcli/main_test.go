package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/client"
)

func TestMain(m *testing.M) {
	waits.connect, waits.prompt, waits.names, waits.shell = time.Minute, time.Minute, time.Minute, time.Minute // the machine may be busy
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(leakChecked{m}, map[string]func(){"zkcli": main})
}

// leakChecked fails the tests when a goroutine outlives them.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// asProgram, in the environment, makes the test binary zkcli itself.
const asProgram = "ZKCLI_TEST_AS_PROGRAM"

// TestScripts runs testdata/*.txtar against a server in this process, on both wires; with ZKCLI_TEST_SERVER against that
// one, which is to be Apache ZooKeeper or zkserver with super user super:test, TTL nodes and quotas switched on. Each
// script has its own $BASE.
func TestScripts(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	for _, wire := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(wire.String(), func(t *testing.T) {
			t.Parallel()
			if wire == client.GRPC && os.Getenv("ZKCLI_TEST_SERVER") != "" {
				t.Skip("the server named may have the ZooKeeper wire only")
			}
			scripts(t, server, wire)
		})
	}
}

// testServer is the one of ZKCLI_TEST_SERVER, or one of ours.
func testServer(t *testing.T) string {
	if s := os.Getenv("ZKCLI_TEST_SERVER"); s != "" {
		return s
	}
	addr, stop := startServer(t)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return addr
}

func scripts(t *testing.T, server string, wire client.Wire) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			base := fmt.Sprintf("/zkcli-%d", time.Now().UnixNano())
			env.Setenv("ZKCLI_SERVER", server)
			env.Setenv("ZKCLI_WIRE", wire.String())
			env.Setenv("BASE", base)
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each of the many programs takes a second to end
			return prepare(env, server, base)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code, "envsubst": envsubst},
	})
}

// prepare makes the script's node, and removes it afterwards.
func prepare(env *testscript.Env, server, base string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, server, client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte("super:test")}}})
	if err != nil {
		return err
	}
	env.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s := &session{p: &printer{out: os.Stdout, err: os.Stderr}, progress: func() {}}
		if _, err := s.deleteTree(ctx, c, base, 100); err != nil {
			env.T().Log(err)
		}
		_ = c.Close()
	})
	_, err = c.Create(ctx, base, nil, client.Persistent)
	return err
}

// code CODE PROGRAM ARGS runs a program that has to end with that exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg {
		ts.Fatalf("usage: code N program args")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// envsubst FILE replaces $VARIABLES in a file of the script's.
func envsubst(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(file, []byte(os.Expand(ts.ReadFile(file), ts.Getenv)), 0o666))
}

// TestArguments: of every command the usage names those that there have to be.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range append(commands(), check()) {
		if n := len(c.arguments()); n < c.min {
			t.Errorf("%s: %q, want %d", c.name, c.arguments(), c.min)
		}
	}
}
