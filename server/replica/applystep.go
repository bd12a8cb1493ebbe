package replica

import (
	"fmt"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// ApplyStep is what the applier does under the tree's write lock, apart from its thread, so that the simulator runs the
// same: a committed transaction is applied, this server's clients are told of it, and what was asked for is answered.
type ApplyStep struct {
	Self    zab.ServerID
	Process zab.ID
	Hub     *session.Hub
	Dirty   *Dirty

	Out znode.Applied // what the last transaction gave

	syncs   []Synced // in the order asked; indexes ascend
	own     []uint64
	created []Created
}

// DecodeTxns appends the transactions of a run.
func DecodeTxns(dst []*znode.Txn, es []zab.Entry) ([]*znode.Txn, error) {
	for i := range es {
		t, ok := es[i].Value.(*znode.Txn)
		if !ok {
			var err error
			if t, err = znode.DecodeTxn(es[i].Data); err != nil {
				return dst, fmt.Errorf("transaction %s: %w", es[i].Zxid, err)
			}
		}
		if zab.Zxid(t.Zxid) != es[i].Zxid {
			return dst, fmt.Errorf("transaction %s says it is %#x", es[i].Zxid, t.Zxid)
		}
		dst = append(dst, t)
	}
	return dst, nil
}

// Apply applies a transaction and notes what it changed. It is all that a replay at the start needs.
func (a *ApplyStep) Apply(tree *znode.Tree, t *znode.Txn) {
	tree.Apply(t, &a.Out)
	a.Dirty.add(t, &a.Out)
}

// Serve tells this server's clients of the transaction just applied, before the next one.
func (a *ApplyStep) Serve(tree *znode.Tree, t *znode.Txn) {
	own := t.Origin.Seq != 0 && t.Origin.Instance == uint64(a.Process) && t.Origin.Server == uint64(a.Self)
	a.Hub.Applied(tree, &a.Out, own)
	if own {
		a.note(t)
	}
	a.releaseSyncs(tree)
}

// note remembers an own request for the report to the loop.
func (a *ApplyStep) note(t *znode.Txn) {
	a.own = append(a.own, t.Origin.Seq)
	if t.Type == znode.OpCreateSession && !t.Failed() {
		a.created = append(a.created, Created{Conn: t.Origin.Conn, Session: znode.Session{
			ID: t.Session, Timeout: t.Timeout, Password: t.Password, Ticket: t.Ticket,
		}})
	}
}

// Report is what the loop must hear of what has been applied since the last one.
func (a *ApplyStep) Report(z zab.Zxid) Applied {
	in := Applied{Zxid: z, Own: a.own, Created: a.created}
	a.own, a.created = nil, nil
	return in
}

// releaseSyncs completes syncs whose index is applied, before the next transaction.
func (a *ApplyStep) releaseSyncs(tree *znode.Tree) {
	n := 0
	for n < len(a.syncs) && int64(a.syncs[n].Index) <= tree.Applied() {
		a.Hub.CompleteEmpty(tree, a.syncs[n].Conn, a.syncs[n].Seq)
		n++
	}
	if n > 0 {
		a.syncs = append(a.syncs[:0], a.syncs[n:]...)
	}
}

// Answer completes what is no transaction, in its place.
func (a *ApplyStep) Answer(tree *znode.Tree, answers []Answer) {
	for _, x := range answers {
		switch x := x.(type) {
		case Attached:
			a.Hub.Attached(x.Conn, session.AttachResult{
				OK: x.Valid, Session: x.Session, Password: x.Password, Timeout: x.Timeout, Ticket: x.Ticket,
			})
		case Synced:
			a.syncs = append(a.syncs, x)
		}
	}
	a.releaseSyncs(tree)
}
