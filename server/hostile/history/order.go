package history

import (
	"cmp"
	"fmt"
	"slices"
)

// place is a register of an object.
type place struct {
	object   string
	register int
}

// content is what a register is from one change on.
type content struct {
	version int32
	value   string
}

// facts is what the answers tell together. Every change has a zxid, and zxids are in the order of the changes, so the
// order of much is known and need not be searched for, over all objects at once.
type facts struct {
	at      map[place]map[int64]content
	changes map[place][]int64 // ascending
	writers map[place]map[string]*Op
	faults  []string
	told    map[string]int
}

// order checks what zxids tell: everybody was shown the same, nothing was written twice or by nobody, what ended before
// an operation began is before it, and what a session is shown never goes back.
func order(ops []*Op) []string {
	f := &facts{at: map[place]map[int64]content{}, changes: map[place][]int64{}, writers: map[place]map[string]*Op{}, told: map[string]int{}}
	for _, op := range ops {
		f.learn(op)
	}
	f.registers()
	f.values(ops)
	f.realTime(ops)
	f.sessions(ops)
	return f.faults
}

func (f *facts) fault(kind, format string, args ...any) {
	if f.told[kind]++; f.told[kind] <= maxFaults {
		f.faults = append(f.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (op *Op) place(p *Part) place { return place{op.Object, p.Register} }

// learn takes one operation's answers.
func (f *facts) learn(op *Op) {
	for i := range op.Parts {
		p := &op.Parts[i]
		at := op.place(p)
		if p.writes() {
			if f.writers[at] == nil {
				f.writers[at] = map[string]*Op{}
			}
			if f.writers[at][p.Value] != nil {
				f.fault("history", "%s: two operations write %q", op.Object, p.Value)
			}
			f.writers[at][p.Value] = op
		}
		if op.Outcome != OK || p.Zxid == 0 || p.Do == Check {
			continue
		}
		if f.at[at] == nil {
			f.at[at] = map[int64]content{}
		}
		c := content{p.Version, p.Value}
		old, known := f.at[at][p.Zxid]
		if !known {
			f.changes[at] = append(f.changes[at], p.Zxid)
		}
		if p.Do == Count {
			if c.value = old.value; !known {
				c.value = ""
			}
		}
		if known && (old.version != c.version || old.value != c.value && old.value != "") {
			f.fault("different", "%v at %#x is %+v for one and %+v for another", at, p.Zxid, old, c)
		}
		f.at[at][p.Zxid] = c
	}
}

// registers: versions grow with zxids, and no value is written twice.
func (f *facts) registers() {
	for at, zxids := range f.changes {
		slices.Sort(zxids)
		seen := map[string]int64{}
		for i, z := range zxids {
			c := f.at[at][z]
			if i > 0 && f.at[at][zxids[i-1]].version >= c.version {
				f.fault("versions", "%v has version %d at %#x and %d at %#x", at, f.at[at][zxids[i-1]].version, zxids[i-1], c.version, z)
			}
			if old, twice := seen[c.value]; twice && c.value != "" {
				f.fault("twice", "%v: %q was written at %#x and at %#x", at, c.value, old, z)
			}
			seen[c.value] = z
		}
	}
}

// values: what is read was written, not refused, and not written later.
func (f *facts) values(ops []*Op) {
	for _, op := range ops {
		if op.seen && op.Outcome != OK {
			f.fault("refused", "%s has a child %q, which was not made", op.Object, op.Parts[0].Value)
		}
		for i := range op.Parts {
			p := &op.Parts[i]
			if op.Outcome != OK || p.Do != Look || p.Version == Missing {
				continue
			}
			w := f.writers[op.place(p)][p.Value]
			switch {
			case w == nil:
				f.fault("nobody", "%v shows %q, which nobody wrote", op.place(p), p.Value)
			case w.Outcome == Refused || w.Outcome == Void:
				f.fault("refused", "%v shows %q, whose writer was told that it was not written", op.place(p), p.Value)
			case w.Call > op.Return:
				f.fault("future", "%v shows %q before it was written", op.place(p), p.Value)
			}
		}
	}
}

// missed finds a change of a register that lies behind one zxid and not behind another.
func (f *facts) missed(at place, shown, newest int64) (int64, bool) {
	zxids := f.changes[at]
	i, exact := slices.BinarySearch(zxids, shown)
	if exact {
		i++
	}
	if i < len(zxids) && zxids[i] <= newest {
		return zxids[i], true
	}
	return 0, false
}

// newest is the newest zxid of an answer.
func (op *Op) newest() int64 {
	var z int64
	for i := range op.Parts {
		z = max(z, op.Parts[i].Zxid)
	}
	return z
}

// behind checks an operation against a zxid that it must be behind: a write is newer, a read misses nothing up to it.
func (f *facts) behind(kind string, op *Op, floor int64) {
	for i := range op.Parts {
		p := &op.Parts[i]
		switch {
		case p.writes():
			if p.Zxid != 0 && p.Zxid <= floor {
				f.fault(kind, "%v was written at %#x by an operation that began after %#x was shown", op.place(p), p.Zxid, floor)
			}
		case p.Do == Look || p.Do == Count:
			if p.Zxid == 0 && p.Version != Missing {
				continue
			}
			if z, is := f.missed(op.place(p), p.Zxid, floor); is {
				f.fault(kind, "session %d: a read of %v shows %#x and not %#x, although %#x had been shown", op.Session, op.place(p), p.Zxid, z, floor)
			}
		}
	}
}

// realTime: writes and reads behind a sync come after everything that any client had been shown when they began.
func (f *facts) realTime(ops []*Op) {
	ends := slices.DeleteFunc(slices.Clone(ops), func(op *Op) bool { return op.Outcome != OK || op.newest() == 0 })
	begins := slices.DeleteFunc(slices.Clone(ends), func(op *Op) bool { return op.Kind == Plain })
	slices.SortStableFunc(begins, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(ends, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	var floor int64
	i := 0
	for _, op := range begins {
		for ; i < len(ends) && ends[i].Return < op.Call; i++ {
			floor = max(floor, ends[i].newest())
		}
		f.behind("real time", op, floor)
	}
}

// sessions: what a session is shown never goes back, its reads come behind its writes, and a read of two registers
// shows one moment.
func (f *facts) sessions(ops []*Op) {
	floor := map[int]int64{}
	for _, op := range ops {
		if op.Outcome != OK {
			continue
		}
		f.behind("session", op, floor[op.Session])
		newest := op.newest()
		if op.Kind != Write {
			for i := range op.Parts {
				if z, is := f.missed(op.place(&op.Parts[i]), op.Parts[i].Zxid, newest); is && len(op.Parts) > 1 {
					f.fault("torn", "session %d: a read of %v shows %#x and not %#x, and with it %#x", op.Session, op.place(&op.Parts[i]), op.Parts[i].Zxid, z, newest)
				}
			}
		}
		floor[op.Session] = max(floor[op.Session], newest)
	}
}
