package jute

import "testing"

// TestHotPathsAllocate states what the hot paths cost. dst has room, as a connection's buffer has.
func TestHotPathsAllocate(t *testing.T) {
	path := Str("/services/web/instance-0000000042")
	data := make([]byte, 200)
	open := []ACL{{PermAll, Str("world"), Str("anyone")}}
	read := (&GetDataRequest{Path: path, Watch: true}).Append(nil)
	set := (&SetDataRequest{Path: path, Data: data, Version: -1}).Append(nil)
	create := (&CreateRequest{Path: path, Data: data, ACL: open}).Append(nil)
	head := (&RequestHeader{Xid: 1, Type: OpGetData}).Append(nil)
	dst := make([]byte, 0, 1024)
	nodes := map[string]int{path.Value: 1}
	var d Decoder

	for _, tc := range []struct {
		name string
		want float64
		f    func()
	}{
		{"request header", 0, func() { d.Reset(head); var h RequestHeader; h.Decode(&d) }},
		{"path and watch, looked up", 0, func() {
			d.Reset(read)
			if p, _, _ := d.PathWatch(); nodes[string(p)] != 1 {
				t.Error("not found")
			}
		}},
		{"getData request", 1, func() { d.Reset(read); var r GetDataRequest; r.Decode(&d) }},
		{"setData request", 2, func() { d.Reset(set); var r SetDataRequest; r.Decode(&d) }},
		{"create request", 3, func() { d.Reset(create); var r CreateRequest; r.Decode(&d) }},
		{"getData response", 0, func() {
			out, at := BeginFrame(dst)
			h := ReplyHeader{Xid: 7, Zxid: 9}
			r := GetDataResponse{Data: data, Stat: Stat{Czxid: 1}}
			EndFrame(r.Append(h.Append(out)), at)
		}},
		{"setData response", 0, func() { r := StatResponse{Stat{Czxid: 1}}; r.Append(dst) }},
		{"create response", 0, func() { r := CreateResponse{path}; r.Append(dst) }},
		{"reply without body", 0, func() { AppendReply(dst, ReplyHeader{Xid: 1, Err: NoNode}) }},
		{"event", 0, func() { AppendEvent(dst, 5, EventNodeDataChanged, path.Value) }},
	} {
		if got := testing.AllocsPerRun(200, tc.f); got > tc.want {
			t.Errorf("%s: %v allocations, want %v", tc.name, got, tc.want)
		}
	}
}

func BenchmarkGetData(b *testing.B) {
	body := (&GetDataRequest{Path: Str("/services/web/instance-0000000042")}).Append(nil)
	data := make([]byte, 200)
	dst := make([]byte, 0, 1024)
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(body)
		d.PathWatch()
		out, at := BeginFrame(dst)
		h := ReplyHeader{Xid: 7, Zxid: 9}
		r := GetDataResponse{Data: data}
		EndFrame(r.Append(h.Append(out)), at)
	}
}

func BenchmarkDecodeCreate(b *testing.B) {
	body := (&CreateRequest{Path: Str("/services/web/instance-"), Data: make([]byte, 200), ACL: []ACL{{31, Str("world"), Str("anyone")}}}).Append(nil)
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(body)
		var r CreateRequest
		r.Decode(&d)
	}
}
