package transport

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/zkserver/zkserver/election"
	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// every has one of each message; fill sets each field to a value of its own.
func every() []peer.Message {
	return []peer.Message{
		&election.Notification{}, &zab.LearnerInfo{}, &zab.LeaderInfo{}, &zab.AckEpoch{}, &zab.SyncBegin{}, &zab.Append{},
		&zab.NewLeader{}, &zab.AckNewLeader{}, &zab.UpToDate{}, &zab.Ack{}, &zab.Commit{}, &zab.Ping{}, &zab.Pong{},
		&zab.SyncRequest{}, &zab.SyncReply{}, &zab.TimeoutNow{}, &zab.Goodbye{}, &zab.Refuse{}, &peer.Forward{},
		&peer.ForwardReject{}, &peer.HandOverMark{}, &peer.Revalidate{}, &peer.RevalidateResult{}, &peer.Touches{},
		&peer.Tickets{}, &peer.Evict{},
	}
}

// fill gives every field of v another value, so that a field that the conversion forgets or swaps is noticed.
func fill(v reflect.Value, next *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type.Kind() != reflect.Interface { // zab.Entry.Value never crosses a link
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(v.Index(i), next)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		*next++
		v.SetString(string(rune('a' + *next%26)))
	case reflect.Int32, reflect.Int64:
		*next++
		v.SetInt(int64(*next))
	default:
		*next++
		switch v.Type() {
		case reflect.TypeFor[zab.Role](), reflect.TypeFor[zab.SyncMode]():
			v.SetUint(2)
		default:
			v.SetUint(*next)
		}
	}
}

func TestEveryMessage(t *testing.T) {
	kinds := (&zabv1.Message{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields().Len()
	if len(every()) != kinds {
		t.Errorf("%d messages, the schema has %d", len(every()), kinds)
	}
	for _, m := range every() {
		for range 2 { // zero values, then all fields set
			wire, err := encode(m)
			if err != nil {
				t.Fatal(err)
			}
			b, err := proto.Marshal(wire)
			if err != nil {
				t.Fatal(err)
			}
			var back zabv1.Message
			if err := proto.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			got, err := decode(&back)
			var bad *MessageError
			_, isBegin := m.(*zab.SyncBegin)
			if zero := reflect.ValueOf(m).Elem().IsZero(); zero && isBegin {
				if !errors.As(err, &bad) {
					t.Errorf("%T without mode: %v", m, err)
				}
			} else if err != nil {
				t.Errorf("%T: %v", m, err)
			} else if d := cmp.Diff(m, got, emptyIsNil()); d != "" {
				t.Errorf("%T: %s", m, d)
			}
			if n := size(m); n < len(b) {
				t.Errorf("%T takes %d bytes, estimated as %d", m, len(b), n)
			}
			next := uint64(20)
			fill(reflect.ValueOf(m).Elem(), &next)
		}
	}
}

func emptyIsNil() cmp.Option {
	return cmp.FilterValues(func(a, b any) bool {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		return x.IsValid() && y.IsValid() && x.Kind() == reflect.Slice && y.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0
	}, cmp.Ignore())
}

func TestUnknownMessage(t *testing.T) {
	var bad *MessageError
	if _, err := encode("a string"); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
	if _, err := encode(nil); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
	for name, m := range map[string]*zabv1.Message{
		"nil": nil, "empty": {},
		"epoch":   {Kind: &zabv1.Message_Ping{Ping: &zabv1.Ping{Epoch: 1 << 31}}},
		"server":  {Kind: &zabv1.Message_Goodbye{Goodbye: &zabv1.Goodbye{Successor: 255}}},
		"timeout": {Kind: &zabv1.Message_Touches{Touches: &zabv1.Touches{Sessions: []*zabv1.Touch{{TimeoutMs: -1}}}}},
		"mode":    {Kind: &zabv1.Message_SyncBegin{SyncBegin: &zabv1.SyncBegin{Mode: 4}}},
		"state":   {Kind: &zabv1.Message_Notification{Notification: &zabv1.Notification{State: 5}}},
		"reject":  {Kind: &zabv1.Message_ForwardReject{ForwardReject: &zabv1.ForwardReject{Reason: -1}}},
		"reason":  {Kind: &zabv1.Message_ForwardReject{ForwardReject: &zabv1.ForwardReject{}}},
	} {
		if _, err := decode(m); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode: whatever bytes come, they become values that can be sent again, or an error of the right type.
func FuzzDecode(f *testing.F) {
	for _, m := range every() {
		next := uint64(20)
		fill(reflect.ValueOf(m).Elem(), &next)
		wire, err := encode(m)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(&zabv1.Frame{Messages: []*zabv1.Message{wire}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr zabv1.Frame
		if proto.Unmarshal(b, &fr) != nil {
			return
		}
		for _, in := range fr.GetMessages() {
			m, err := decode(in)
			if err != nil {
				var bad *MessageError
				if !errors.As(err, &bad) || m != nil {
					t.Fatalf("%v %v", m, err)
				}
				continue
			}
			out, err := encode(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := decode(out)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(m, again, emptyIsNil()); d != "" {
				t.Fatal(d)
			}
			size(m)
		}
	})
}

// FuzzAssembly: no snapshot stream panics, and none ends well unless all its bytes were taken.
func FuzzAssembly(f *testing.F) {
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr zabv1.SnapshotFrame
		if proto.Unmarshal(b, &fr) != nil {
			return
		}
		var a assembly
		if _, done, err := a.take(&fr); done && (err != nil || fr.GetEnd().GetTotal() != 0) {
			t.Fatal("accepted")
		}
	})
}
