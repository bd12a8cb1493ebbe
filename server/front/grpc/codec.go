package grpcfront

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// encoded is a message that is bytes already.
type encoded []byte

// sized is a stream's message and how long it was, in bytes. One with more than maxParts is left empty.
type sized struct {
	zkv1.SessionRequest
	size    int
	crowded bool
}

// maxParts bounds the messages within a message: commands, operations, entries of lists. Two bytes on the wire make one
// that takes over a hundred here. A message of partsFrom bytes is counted before it is decoded.
const (
	maxParts  = 1 << 14
	partsFrom = 8 << 10
)

var errParts = fmt.Errorf("more than %d messages within a message", maxParts)

// parts counts the messages within an encoded message, up to some more than maxParts.
func parts(b []byte, md protoreflect.MessageDescriptor) (n int) {
	for len(b) > 0 && n <= maxParts {
		num, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return n // decoding finds that too
		}
		b = b[size:]
		value := protowire.ConsumeFieldValue(num, typ, b)
		if value < 0 {
			return n
		}
		if fd := md.Fields().ByNumber(num); typ == protowire.BytesType && fd != nil && fd.Message() != nil {
			inner, _ := protowire.ConsumeBytes(b)
			n += 1 + parts(inner, fd.Message())
		}
		b = b[value:]
	}
	return n
}

// codec is gRPC's own for messages, and takes encoded, charged and sized besides.
type codec struct{ plain encoding.CodecV2 }

func newCodec() codec { return codec{plain: encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2. Bytes are copied: gRPC may still read them when SendMsg has returned, and the
// outbox they come from is used again then.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(encoded); ok {
		return mem.BufferSlice{mem.Copy(b, mem.DefaultBufferPool())}, nil
	}
	if r, ok := v.(*charged); ok {
		return r.marshal()
	}
	return c.plain.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	s, ok := v.(*sized)
	if !ok && data.Len() < partsFrom {
		return c.plain.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	m, isMessage := v.(protobuf.Message)
	crowded := isMessage && buf.Len() >= partsFrom && parts(buf.ReadOnlyData(), m.ProtoReflect().Descriptor()) > maxParts
	if !ok {
		if crowded {
			return errParts
		}
		return c.plain.Unmarshal(data, v)
	}
	if s.size, s.crowded = buf.Len(), crowded; crowded {
		return nil
	}
	if err := protobuf.Unmarshal(buf.ReadOnlyData(), &s.SessionRequest); err != nil {
		return fmt.Errorf("session request: %w", err)
	}
	return nil
}
