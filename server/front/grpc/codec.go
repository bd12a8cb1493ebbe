package grpcfront

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// encoded is a message that is bytes already.
type encoded []byte

// sized is a stream's message and how long it was, in bytes.
type sized struct {
	zkv1.SessionRequest
	size int
}

// codec is gRPC's own for messages, and takes encoded and sized besides.
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
	return c.plain.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	s, ok := v.(*sized)
	if !ok {
		return c.plain.Unmarshal(data, v)
	}
	s.size = data.Len()
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if err := protobuf.Unmarshal(buf.ReadOnlyData(), &s.SessionRequest); err != nil {
		return fmt.Errorf("session request: %w", err)
	}
	return nil
}
