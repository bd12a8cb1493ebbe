package transport

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/zab"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// progressEvery is how often a sender is told that its snapshot moves.
const progressEvery = 20 * time.Millisecond

// SendSnapshot streams src to the link's peer, on a connection of its own, until all is there or ctx ends. progress is
// called now and then while it moves; done once, after src is closed: nil when the peer has all of it and its sink's
// Finish succeeded. It does not wait itself.
func (t *Transport) SendSnapshot(ctx context.Context, l zab.Link, src SnapshotSource, done func(err error), progress func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		go func() { // ends by itself: nothing of the transport is running any more
			_ = src.Close()
			done(ErrStopped)
		}()
		return
	}
	t.spawn(func() { // ends with the transfer, with ctx, with the link, or with Run
		err := ErrLinkGone
		if k := t.lookup(l); k != nil {
			err = t.transfer(ctx, k, src, progress)
		}
		_ = src.Close() // it was only read
		done(err)
	})
}

// transfer sends one snapshot.
func (t *Transport) transfer(ctx context.Context, l *link, src SnapshotSource, progress func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.spawn(func() { // ends with the transfer
		select {
		case <-ctx.Done():
		case <-l.stop:
			cancel(ErrLinkGone)
		case <-t.done:
			cancel(ErrStopped)
		}
	})
	cc, err := t.connect(ctx, l.peer)
	if err != nil {
		return fmt.Errorf("transport: snapshot: %w", err)
	}
	defer closeQuietly(cc)
	stream, err := zabv1.NewPeerServiceClient(cc).Snapshot(ctx)
	if err == nil {
		if err = t.sendParts(l, stream, src, progress); err == nil || errors.Is(err, io.EOF) {
			err = t.result(stream, progress)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("transport: snapshot: %w", err)
	}
	return nil
}

// sendParts sends all but asks for no result; io.EOF: the receiver has given up and its result says why.
func (t *Transport) sendParts(l *link, stream grpc.ClientStreamingClient[zabv1.SnapshotFrame, zabv1.SnapshotResult], src SnapshotSource, progress func()) error {
	begin := &zabv1.SnapshotBegin{Envelope: t.envelope(l.id.Peer, l.remote.link), Process: uint64(t.opts.Process), Zxid: uint64(src.Zxid())}
	if err := stream.Send(&zabv1.SnapshotFrame{Part: &zabv1.SnapshotFrame_Begin{Begin: begin}}); err != nil {
		return err
	}
	var total uint64
	var sum uint32
	told := t.now()
	for done := false; !done; {
		var chunk []byte
		var err error
		if chunk, done, err = src.Next(t.opts.ChunkSize); err != nil {
			return err
		}
		if len(chunk) > 0 {
			part := &zabv1.SnapshotChunk{Offset: total, Data: chunk, Crc32C: crc32.Checksum(chunk, castagnoli)}
			if err := stream.Send(&zabv1.SnapshotFrame{Part: &zabv1.SnapshotFrame_Chunk{Chunk: part}}); err != nil {
				return err
			}
			total += uint64(len(chunk))
			sum = crc32.Update(sum, castagnoli, chunk)
		}
		if now := t.now(); now-told > int64(progressEvery) {
			told = now
			progress()
		}
	}
	return stream.Send(&zabv1.SnapshotFrame{Part: &zabv1.SnapshotFrame_End{End: &zabv1.SnapshotEnd{Total: total, Crc32C: sum}}})
}

// result waits for the receiver's word. Its disk may take long; that it is connected counts as progress.
func (t *Transport) result(stream grpc.ClientStreamingClient[zabv1.SnapshotFrame, zabv1.SnapshotResult], progress func()) error {
	done := make(chan error, 1)
	t.spawn(func() { // ends with the stream
		_, err := stream.CloseAndRecv()
		done <- err
	})
	ticker := time.NewTicker(t.opts.Silence / 2)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			progress()
		}
	}
}

// Snapshot takes in a snapshot for one of this server's links.
func (s *service) Snapshot(stream grpc.ClientStreamingServer[zabv1.SnapshotFrame, zabv1.SnapshotResult]) error {
	t := s.t
	f, err := recvWithin(t, helloTimeout, stream.Recv)
	if err != nil {
		return err
	}
	env := f.GetBegin().GetEnvelope()
	l := t.lookup(zab.Link{Peer: zab.ServerID(env.GetFrom()), Incarnation: env.GetLink()})
	if l == nil || env.GetTo() != uint64(t.opts.Self) || uint64(l.remote.instance) != env.GetInstance() ||
		uint64(l.remote.process) != f.GetBegin().GetProcess() {
		return status.Error(codes.FailedPrecondition, ErrLinkGone.Error())
	}
	sink, err := t.handler.SnapshotStart(l.id, zab.Zxid(f.GetBegin().GetZxid()))
	if err != nil {
		return status.Error(codes.Aborted, err.Error())
	}
	if err := t.receive(l, stream, sink); err != nil {
		sink.Abort(err)
		return status.Error(codes.Aborted, err.Error())
	}
	if err := sink.Finish(); err != nil {
		return status.Error(codes.Aborted, err.Error())
	}
	return stream.SendAndClose(&zabv1.SnapshotResult{})
}

// receive writes what arrives into sink until the end is there and right.
func (t *Transport) receive(l *link, stream grpc.ClientStreamingServer[zabv1.SnapshotFrame, zabv1.SnapshotResult], sink SnapshotSink) error {
	parts, quit := make(chan *zabv1.SnapshotFrame), make(chan struct{})
	defer close(quit)
	var broken error
	t.spawn(func() { // ends with the stream, or when the receiver has quit
		defer close(parts)
		for {
			f, err := stream.Recv()
			if err != nil {
				broken = err
				return
			}
			select {
			case parts <- f:
			case <-quit:
				return
			}
		}
	})
	var got assembly
	for {
		select {
		case f, ok := <-parts:
			if !ok {
				if errors.Is(broken, io.EOF) {
					broken = io.ErrUnexpectedEOF
				}
				return broken
			}
			chunk, done, err := got.take(f)
			if err != nil || done {
				return err
			}
			if err := sink.Write(chunk); err != nil {
				return err
			}
		case <-l.stop:
			return ErrLinkGone
		}
	}
}

// assembly checks that the parts are whole and in order.
type assembly struct {
	total uint64
	sum   uint32
}

func (a *assembly) take(f *zabv1.SnapshotFrame) (chunk []byte, done bool, err error) {
	bad := func(format string, args ...any) ([]byte, bool, error) {
		return nil, false, &MessageError{Kind: "snapshot", What: fmt.Sprintf(format, args...)}
	}
	switch p := f.GetPart().(type) {
	case *zabv1.SnapshotFrame_Chunk:
		c := p.Chunk
		switch {
		case c.GetOffset() != a.total:
			return bad("chunk at %d, expected at %d", c.GetOffset(), a.total)
		case crc32.Checksum(c.GetData(), castagnoli) != c.GetCrc32C():
			return bad("checksum of the chunk at %d", c.GetOffset())
		}
		a.total += uint64(len(c.GetData()))
		a.sum = crc32.Update(a.sum, castagnoli, c.GetData())
		return c.GetData(), false, nil
	case *zabv1.SnapshotFrame_End:
		if p.End.GetTotal() != a.total || p.End.GetCrc32C() != a.sum {
			return bad("%d bytes, sum %08x; sent were %d, %08x", a.total, a.sum, p.End.GetTotal(), p.End.GetCrc32C())
		}
		return nil, true, nil
	default:
		return bad("an unknown part")
	}
}
