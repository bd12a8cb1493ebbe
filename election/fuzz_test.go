package election

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// FuzzStep: whatever comes in, in whatever order, nothing panics, nobody but a member is written to, and the same
// inputs give the same outputs.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		members := []zab.Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}, {ID: 9, Observer: true}}
		var cores [2]*Core
		for i := range cores {
			c, err := New(Boot{Self: 2, Members: members, Verifier: zab.NewVerifier(members), Rand: rand.New(rand.NewPCG(1, 2))})
			if err != nil {
				t.Fatal(err)
			}
			cores[i] = c
		}
		now := time.Duration(0)
		for len(b) >= 12 {
			in := fuzzInput(b[:12], &now)
			b = b[12:]
			var got [2]Batch
			for i, c := range cores {
				c.Step(in)
				got[i], _ = c.Ready()
			}
			if len(got[0].Send) != len(got[1].Send) || (got[0].Decided == nil) != (got[1].Decided == nil) || got[0].Abandon != got[1].Abandon {
				t.Fatalf("%v and %v", got[0], got[1])
			}
			for i, s := range got[0].Send {
				if s != got[1].Send[i] {
					t.Fatalf("%v and %v", s, got[1].Send[i])
				}
				if s.To == 2 || s.To != 1 && s.To != 3 && s.To != 9 {
					t.Fatalf("to %d", s.To)
				}
			}
			if d := got[0].Decided; d != nil && (d.Leader == 0 || d.Leader > 3) {
				t.Fatalf("decided %d", d.Leader)
			}
		}
	})
}

func fuzzInput(b []byte, now *time.Duration) Input {
	p := zab.ServerID(b[1] % 10)
	switch b[0] % 8 {
	case 0:
		*now += zab.QuantumLength
		return Quantum{Now: *now, Late: time.Duration(b[1]) * time.Millisecond}
	case 1:
		return PeerUp{Peer: p, RTT: time.Duration(b[2])}
	case 2:
		return PeerDown{Peer: p, Refused: b[2]%2 == 0}
	case 3:
		return Look{
			Last: zab.Zxid(b[2]), Current: zab.Epoch(b[3]), Ensemble: zab.ID(b[4] % 3), Transaction: b[5]%2 == 0,
			NeedSnap: b[6]%8 == 0, Campaign: b[7]%4 == 0, Successor: zab.ServerID(b[8] % 5),
		}
	case 4:
		return Settled{Role: zab.Role(b[2] % 5), Leader: p, Epoch: zab.Epoch(b[3]), Ensemble: zab.ID(b[4] % 3)}
	case 5:
		return Chosen{Role: zab.Role(b[2] % 5)}
	default:
		n := Notification{
			Ensemble: zab.ID(b[2] % 3), Transaction: b[3]%2 == 0, Round: uint64(b[4]),
			Vote:        Vote{Leader: zab.ServerID(b[5] % 10), Zxid: zab.Zxid(b[6]), PeerEpoch: zab.Epoch(b[7])},
			State:       zab.Role(b[8] % 6),
			Established: Established{Leader: zab.ServerID(b[9] % 4), Epoch: zab.Epoch(b[10])},
			ConfigSum:   uint64(b[11] % 8 / 7),
		}
		if b[4] == 255 {
			n.Round = binary.BigEndian.Uint64(b[4:])
		}
		return Received{From: p, N: n}
	}
}
