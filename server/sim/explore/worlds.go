package explore

import "github.com/zkserver/zkserver/zab"

// at is a disk of a server of the ensemble: its epochs, its log behind base, and its stored commit point.
func at(accepted, current zab.Epoch, base, commit zab.Zxid, log ...zab.Zxid) disk {
	d := disk{hard: zab.HardState{Accepted: accepted, Current: current}, ensemble: 1, base: base, commit: commit, log: log}
	if base != 0 { // the transactions of its epoch up to it
		for c := uint32(1); c <= base.Counter(); c++ {
			d.state = append(d.state, zab.MakeZxid(base.Epoch(), c))
		}
		d.epochs = tableOf(d.epochs, base)
	}
	for _, z := range log {
		d.epochs = tableOf(d.epochs, z)
	}
	return d
}

func same(d disk) [servers]disk { return [servers]disk{d, d, d} }

func z(e zab.Epoch, counter uint32) zab.Zxid { return zab.MakeZxid(e, counter) }

// Small are worlds of some thousand to some hundred thousand states, each about something else. All of them together
// take some seconds.
func Small() []Config {
	empty := same(at(1, 1, 0, 0))
	// A transaction of epoch 2 was committed by 1 and 2; 3 has a tail of epoch 1 that nobody else has.
	tails := [servers]disk{at(2, 2, 0, 0, z(1, 1), z(2, 1)), at(2, 2, 0, z(2, 1), z(1, 1), z(2, 1)), at(1, 1, 0, z(1, 1), z(1, 1), z(1, 2))}
	return []Config{
		{Name: "calm", Transactions: 2, Elections: 1, Runs: true, Start: empty},
		{Name: "crash", Transactions: 1, Elections: 2, Crashes: 1, Flush: true, Start: empty},
		{Name: "cut", Transactions: 1, Elections: 2, Cuts: 1, Start: empty},
		{Name: "tails", Transactions: 1, Elections: 2, Start: tails},
		// 1:2 was committed by 1 and 2; 3 lags.
		{Name: "lag", Elections: 2, Crashes: 1, Start: [servers]disk{
			at(1, 1, 0, z(1, 1), z(1, 1), z(1, 2)), at(1, 1, 0, z(1, 2), z(1, 1), z(1, 2)), at(1, 1, 0, 0, z(1, 1)),
		}},
		{Name: "early", Transactions: 1, Elections: 1, Cuts: 1, Elected: true, Whole: true, EarlyElections: true, Start: empty},
		// 3 lags behind the log that the others have kept.
		{Name: "snapshot", Transactions: 1, Elections: 2, Flush: true, Start: [servers]disk{
			at(1, 1, z(1, 2), z(1, 2), z(1, 3)), at(1, 1, z(1, 2), z(1, 3), z(1, 3)), at(1, 1, 0, z(1, 1), z(1, 1)),
		}},
		// 2:1 was committed by 1 and 3, then the disk of 3 was lost.
		{Name: "wiped", Elections: 2, Ticks: 2, Start: [servers]disk{
			at(2, 2, 0, z(2, 1), z(2, 1)), at(2, 1, 0, 0), {},
		}},
		{Name: "founding", Transactions: 1, Elections: 2, Ticks: 1},
		{Name: "hand-over", Transactions: 1, Elections: 2, HandOvers: 1, Start: empty},
		{Name: "counter", Transactions: 2, Elections: 2, CounterLimit: 1, Start: empty},
		{Name: "last epochs", Elections: 2, Start: same(at(zab.MaxEpoch-2, 1, 0, 0))},
	}
}
