package replica

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
)

// The leader tells when each session ends; it is a question to the loop that a stopped replica does not answer.
func TestExpiries(t *testing.T) {
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{})
	list, known := x.r.Expiries(t.Context())
	if !known || len(list) != 1 || list[0].Session != k.res.Session || list[0].Timeout != k.res.Timeout ||
		list[0].Left <= 0 || list[0].Left > time.Duration(k.res.Timeout)*time.Millisecond {
		t.Errorf("%+v, %v", list, known)
	}
	k.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if list, known := x.r.Expiries(ctx); known || ctx.Err() != nil {
		t.Errorf("after the end: %+v, %v", list, ctx.Err())
	}
}
