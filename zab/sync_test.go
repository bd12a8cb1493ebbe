package zab

import (
	"strings"
	"testing"
)

// table parses "1:5 3:2".
func table(s string) history {
	var h history
	for _, f := range strings.Fields(s) {
		z := parseZxid(f)
		h = append(h, EpochEnd{z.Epoch(), z})
	}
	return h
}

func TestPlanSync(t *testing.T) {
	for _, c := range []struct {
		name            string
		leader, learner string
		base, delivered string // of leader's log; of learner
		learnerBase     string
		needSnap        bool
		mode            SyncMode
		common, min     string
		alarm           bool
		refuse          Reason
	}{
		{name: "row 1: both empty", mode: SyncDiff},
		{name: "row 1: equal", leader: "1:4", learner: "1:4", delivered: "1:4", mode: SyncDiff, common: "1:4"},
		{name: "row 1: equal over epochs", leader: "1:4 3:1", learner: "1:4 3:1", mode: SyncDiff, common: "3:1"},
		{name: "fresh learner", leader: "1:4 3:1", mode: SyncDiff},
		{name: "fresh leader", learner: "1:4", mode: SyncTrunc},
		{name: "row 2: ahead in the same epoch", leader: "1:4", learner: "1:6", mode: SyncTrunc, common: "1:4"},
		{name: "row 2: ahead by an epoch", leader: "1:4", learner: "1:4 2:3", mode: SyncTrunc, common: "1:4"},
		{name: "row 3a", leader: "1:9", learner: "1:4", mode: SyncDiff, common: "1:4"},
		{name: "row 3a, over epochs", leader: "1:9 2:5 4:4", learner: "1:9 2:3", mode: SyncDiff, common: "2:3"},
		{name: "row 3a, at an epoch's end", leader: "1:9 2:5 4:4", learner: "1:9", mode: SyncDiff, common: "1:9"},
		{name: "row 3c: tail inside the leader's numbers", leader: "1:9 7:73 8:8", learner: "1:9 7:74", mode: SyncTrunc, common: "7:73"},
		{name: "row 3d: tail of an epoch that the leader never had", leader: "1:5 5:1", learner: "1:5 4:2", mode: SyncTrunc, common: "1:5"},
		{name: "row 4: as long as the log is kept", leader: "1:9", learner: "1:4", base: "1:4", mode: SyncDiff, common: "1:4"},
		{name: "row 5: below the kept log", leader: "1:9", learner: "1:4", base: "1:5", mode: SyncSnap, common: "1:4", min: "1:5"},
		{name: "row 5: with a tail", leader: "1:9 3:4", learner: "1:4 2:8", base: "3:1", mode: SyncSnap, common: "1:4", min: "3:1"},
		{name: "1154: the number lies in the window", leader: "1:9 2:81", learner: "1:9 2:74", mode: SyncDiff, common: "2:74"},
		{name: "delivered beyond", leader: "1:4 2:2", learner: "1:9", delivered: "1:9", common: "1:4", refuse: ReasonDeliveredBeyond},
		{name: "delivered up to the common point", leader: "1:4 2:2", learner: "1:9", delivered: "1:4", common: "1:4", mode: SyncTrunc},
		{name: "damaged state, whole log", leader: "1:9", learner: "1:9", delivered: "1:9", learnerBase: "1:6", needSnap: true, mode: SyncSnap, common: "1:9", min: "1:6"},
		{name: "damaged state, the leader's log is shorter", leader: "1:9", learner: "1:9", base: "1:8", learnerBase: "1:6", needSnap: true, mode: SyncSnap, common: "1:9", min: "1:8"},
		{name: "damaged state and a tail", leader: "1:9", learner: "1:11", delivered: "1:9", needSnap: true, mode: SyncSnap, common: "1:9"},
		{name: "R17: an epoch below has two ends", leader: "1:5 3:3", learner: "1:7 3:2", delivered: "3:1", mode: SyncSnap, min: "3:1", alarm: true},
		{name: "R17: an epoch is missing below", leader: "1:5 2:2 3:3", learner: "1:5 3:2", mode: SyncSnap, alarm: true},
		{name: "R17: one more below", leader: "1:5 3:3", learner: "1:5 2:1 3:2", mode: SyncSnap, alarm: true},
	} {
		a, b := table(c.leader), table(c.learner)
		got := planSync(
			extent{base: parseZxid(c.base), last: a.end(), epochs: a},
			extent{base: parseZxid(c.learnerBase), last: b.end(), delivered: parseZxid(c.delivered), epochs: b, needSnap: c.needSnap},
		)
		want := plan{mode: c.mode, common: parseZxid(c.common), min: parseZxid(c.min), alarm: c.alarm, refuse: c.refuse}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

// The plan is exact: for every pair of histories that one tree of epochs can produce, the common point is their longest
// common prefix.
func TestPlanSyncIsExact(t *testing.T) {
	// All histories in which each epoch 1..4 adds 0..2 entries to a prefix of what the epoch before left.
	var all []history
	seen := map[string]bool{}
	var grow func(h history, e Epoch)
	grow = func(h history, e Epoch) {
		key := ""
		for _, r := range h {
			key += zx(r.Last) + " "
		}
		if !seen[key] {
			seen[key] = true
			all = append(all, h)
		}
		if e > 4 {
			return
		}
		grow(h, e+1)
		for n := uint32(1); n <= 2; n++ {
			grow(append(h[:len(h):len(h)], EpochEnd{e, MakeZxid(e, n)}), e+1)
		}
	}
	grow(nil, 1)
	expand := func(h history) (zs []Zxid) {
		for _, r := range h {
			for z := MakeZxid(r.Epoch, 1); z <= r.Last; z++ {
				zs = append(zs, z)
			}
		}
		return zs
	}
	pairs := 0
	for _, a := range all {
		for _, b := range all {
			x, y := expand(a), expand(b)
			common := Zxid(0)
			for i := 0; i < len(x) && i < len(y) && x[i] == y[i]; i++ {
				common = x[i]
			}
			p := planSync(extent{last: a.end(), epochs: a}, extent{last: b.end(), epochs: b})
			if p.alarm {
				// Only where an epoch below a shared one differs, which no run of the protocol produces.
				continue
			}
			pairs++
			if p.common > common {
				t.Fatalf("%v, %v: common %v, prefix ends at %v", a, b, p.common, common)
			}
			if p.common != common || (p.mode == SyncDiff) != (common == b.end()) {
				t.Fatalf("%v, %v: %+v, prefix ends at %v", a, b, p, common)
			}
		}
	}
	if pairs < 1000 {
		t.Fatal("too few pairs", pairs)
	}
}

func TestHistory(t *testing.T) {
	h := table("1:5 3:2")
	for in, want := range map[string]string{
		"0:0": "0:0", "1:1": "1:1", "1:5": "1:5", "1:6": "1:5", "2:0": "1:5", "2:9": "1:5", "3:0": "1:5", "3:1": "3:1", "3:3": "3:2", "9:9": "3:2",
	} {
		if got := zx(h.floor(parseZxid(in))); got != want {
			t.Errorf("floor(%s) = %s, want %s", in, got, want)
		}
	}
	if validHistory(h, parseZxid("3:2")) != nil || validHistory(nil, 0) != nil {
		t.Error("sound tables refused")
	}
	for _, bad := range []struct {
		h    []EpochEnd
		last string
	}{
		{h, "3:1"}, {h, "0:0"}, {nil, "1:1"},
		{[]EpochEnd{{2, MakeZxid(1, 5)}}, "1:5"},
		{[]EpochEnd{{1, MakeZxid(1, 0)}}, "1:0"},
		{[]EpochEnd{{3, MakeZxid(3, 1)}, {1, MakeZxid(1, 1)}}, "1:1"},
	} {
		if validHistory(bad.h, parseZxid(bad.last)) == nil {
			t.Errorf("accepted %v %s", bad.h, bad.last)
		}
	}
	if got := h.upTo(parseZxid("1:3")); len(got) != 1 || got.end() != MakeZxid(1, 3) || h.end() != MakeZxid(3, 2) {
		t.Errorf("upTo: %v of %v", got, h)
	}
	if len(h.upTo(0)) != 0 {
		t.Error("upTo(0)")
	}
}

func TestContinues(t *testing.T) {
	run := func(s string) (es []Entry) {
		for _, f := range strings.Fields(s) {
			es = append(es, Entry{Zxid: parseZxid(f)})
		}
		return es
	}
	for _, c := range []struct {
		prev, run string
		want      bool
	}{
		{"0:0", "1:1 1:2", true}, {"1:2", "1:3 2:1 2:2 5:1", true}, {"1:2", "", true},
		{"1:2", "1:2", false}, {"1:2", "1:4", false}, {"1:2", "2:2", false}, {"2:1", "1:2", false}, {"1:2", "1:3 1:3", false},
		{"1:4294967295", "2:0", false}, {"1:2", "0:1", false},
	} {
		if got := continues(parseZxid(c.prev), run(c.run)); got != c.want {
			t.Errorf("%s then %s: %v", c.prev, c.run, got)
		}
	}
}
