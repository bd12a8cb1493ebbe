package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/server/config"
)

// TestOutcome: a fault is waited behind for so long and no longer, whoever tells of it and whatever hangs.
func TestOutcome(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		ended, part, storage bool // which of them say something, and ended only behind cancel if another does
		err                  error
		left                 bool
	}{
		"an orderly end":            {ended: true},
		"a part, the others end":    {ended: true, part: true, err: broken},
		"a part, another hangs":     {part: true, err: broken, left: true},
		"storage, the others end":   {ended: true, storage: true, err: broken},
		"storage, something hangs":  {storage: true, err: broken, left: true},
		"both, and something hangs": {part: true, storage: true, err: broken, left: true},
	} {
		ended, part, storage := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		cancel := func() {
			if c.ended {
				close(ended)
			}
		}
		if c.part {
			part <- broken
		}
		if c.storage {
			storage <- broken
		}
		if c.ended && !c.part && !c.storage {
			close(ended)
		}
		limit := time.Minute
		if c.left {
			limit = time.Millisecond
		}
		if left, err := outcome(ended, part, storage, cancel, limit); left != c.left || !errors.Is(err, c.err) {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

// TestFullDiskEndsRun: a disk that is full, and then answers nothing any more, is told and ends Run.
func TestFullDiskEndsRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=0\n", filepath.Join(dir, "data"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	var broken, told atomic.Bool
	gate := make(chan struct{})
	defer close(gate)
	fs := faultfs.Wrap(vfs.NewMem(), func(op errorfs.Op) error {
		if !broken.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if told.CompareAndSwap(false, true) {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		<-gate
		return nil
	})
	s, err := New(c, Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	broken.Store(true) // its first epoch cannot be written
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }() // ends at the fault
	select {
	case err := <-done:
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("does not end")
	}
}
