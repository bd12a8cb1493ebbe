package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
)

// TestNoSnapshotOnALowDisk is not said at once: whoever is told asks again, and each time costs a link and a role.
func TestNoSnapshotOnALowDisk(t *testing.T) {
	fs := vfs.NewMem()
	x := start(t, 1, 1, fs, nil, func(o *Options) { o.Store.LowWater = 1 << 20 })
	x.serving()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 10, TotalBytes: 1 << 30})
	x.r.store.CheckDisk()
	link := zab.Link{Peer: 2, Incarnation: 7}
	began := time.Now()
	received, sent := make(chan error, 1), make(chan bool, 1)
	go func() {
		_, err := x.r.SnapshotStart(link, 5)
		received <- err
	}()
	go func() { sent <- x.r.bulk.open(zab.NeedSnapshot{Link: link}) != nil }()
	if err := <-received; !errors.Is(err, store.ErrDiskLow) {
		t.Error(err)
	}
	if <-sent {
		t.Error("there is one to send")
	}
	if took := time.Since(began); took < lowDiskPause {
		t.Errorf("said after %v", took)
	}
	go func() {
		_, err := x.r.SnapshotStart(link, 5)
		received <- err
	}()
	if err := x.end(); err != nil {
		t.Error(err)
	}
	if err := <-received; !errors.Is(err, store.ErrDiskLow) && !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
