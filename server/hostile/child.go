//go:build linux

package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// childEnv makes a program that calls Child a server.
const childEnv = "ZKSERVER_HOSTILE_CHILD"

// Child runs a server whose disk obeys standard input, if this process was started as one, and never returns then. Every
// program that starts storms calls it first.
func Child() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := serve(os.Args[len(os.Args)-1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(file string, commands io.Reader) error {
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		return err
	}
	d := &disk{}
	go d.obey(commands) // ends with the process
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	s, err := server.New(c, server.Options{Log: log, Version: "hostile", FS: d.fs(vfs.Default)})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// disk is a real one between which and the server a fault can be put.
type disk struct {
	mu    sync.Mutex
	fault string
	slow  time.Duration
}

// The commands to a disk, a line each; a duration makes every sync take so much longer.
const (
	diskWell = "well"
	diskFail = "fail" // every sync fails
	diskFull = "full" // every write that needs room fails
)

func (d *disk) obey(commands io.Reader) {
	for in := bufio.NewScanner(commands); in.Scan(); {
		word := strings.TrimSpace(in.Text())
		slow, err := time.ParseDuration(word)
		d.mu.Lock()
		d.fault, d.slow = word, 0
		if err == nil {
			d.slow = slow
		}
		d.mu.Unlock()
	}
}

func (d *disk) fs(inner vfs.FS) vfs.FS {
	return faultfs.Wrap(inner, func(op errorfs.Op) error {
		d.mu.Lock()
		fault, slow := d.fault, d.slow
		d.mu.Unlock()
		switch {
		case faultfs.IsSync(op) && fault == diskFail:
			return errorfs.ErrInjected
		case faultfs.IsSync(op) && slow > 0:
			time.Sleep(slow) // a disk, as the server sees it
		case fault == diskFull && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpCreate):
			return syscall.ENOSPC
		}
		return nil
	})
}
