package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// Ending is a program of things that end by themselves, in real time: sessions that fall silent, containers that were
// emptied, nodes whose time is over. One ends in each slot of slotTicks ticks, so the order of all of them is determined.
// Two observers see it: one by a recursive watch, one by one-shot watches.
type Ending struct {
	Seed  uint64
	Tick  time.Duration // the servers' tickTime, and the interval at which they look for what to reap
	slots []ending
}

// slotTicks is how far ends lie apart: a server may be two ticks late, and what follows an end needs its time too.
const slotTicks = 6

// ending is what ends in a slot.
type ending struct {
	kind    string
	timeout int           // of the session, ticks
	reads   bool          // it reads until it falls silent, instead of pinging
	names   []string      // of its ephemerals, below the slot's node
	flags   []int32       // of each
	refresh bool          // a TTL node that is set again on the way
	heir    bool          // another session makes a node of the first name as soon as it is free
	due     time.Duration // of its slot, from when all is prepared
}

// The kinds. A session falls silent on a connection that stays, or is cut off; is taken up again by another connection
// in time and falls silent there; is closed. A TTL node, also one that has a child until then; a container whose child is
// deleted, or is an ephemeral that goes with its session.
var endings = []string{"silent", "cut", "moved", "closed", "ttl", "ttl with child", "container", "container of ephemeral"}

// GenerateEnding makes the program of a seed.
func GenerateEnding(seed uint64, tick time.Duration, slots int) *Ending {
	r := rand.New(rand.NewPCG(seed, 0xe4d))
	p := &Ending{Seed: seed, Tick: tick}
	for i := range slots {
		e := ending{
			kind: endings[r.IntN(len(endings))], timeout: 2 + r.IntN(3), reads: r.IntN(2) == 0, refresh: r.IntN(2) == 0, heir: r.IntN(2) == 0,
			due: time.Duration(i+1) * slotTicks * tick,
		}
		if i == 0 && seed < uint64(len(endings)) {
			e.kind = endings[seed] // each kind comes up in a short run
		}
		for _, name := range []string{"b", "a", "sub/c", "q-", "sub/q-"}[:1+r.IntN(5)] {
			e.names = append(e.names, name)
			flags := jute.FlagsEphemeral
			if strings.HasSuffix(name, "-") {
				flags = jute.FlagsEphemeralSequential
			}
			e.flags = append(e.flags, flags)
		}
		p.slots = append(p.slots, e)
	}
	return p
}

// String tells what ends when.
func (p *Ending) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, ticks of %s", p.Seed, p.Tick)
	for i, e := range p.slots {
		fmt.Fprintf(&b, "\nslot %d at %s: %s timeout=%d reads=%t refresh=%t heir=%t %q", i, e.due, e.kind, e.timeout, e.reads, e.refresh, e.heir, e.names)
	}
	return b.String()
}

// Moment is an event, and when it came.
type Moment struct {
	At   time.Duration // since the program's start
	Zxid int64
	Text string
}

// End is when something had to end, and when the recursive watch told of it; -1: never.
type End struct {
	Text    string
	Due, At time.Duration
	Reaped  bool // by the look for what is due, which comes once a tick
}

// Endings is what came of a program.
type Endings struct {
	Watched [2][]Moment // by the recursive watch, by one-shot watches
	Ends    []End
	Notes   []string // answers, in the order of the program
	Tree    []string // what is left
}

// Early tells of ends that came before their time, which nothing excuses.
func (e *Endings) Early() error {
	var errs []error
	for _, x := range e.Ends {
		if x.At >= 0 && x.At < x.Due {
			errs = append(errs, fmt.Errorf("%s was due at %s and ended at %s", x.Text, x.Due.Round(time.Millisecond), x.At.Round(time.Millisecond)))
		}
	}
	return errors.Join(errs...)
}

// Late tells of ends that came later than their ticks allow and slack, or never.
func (p *Ending) Late(e *Endings, slack time.Duration) error {
	var errs []error
	for _, x := range e.Ends {
		late := 2 * p.Tick
		if x.Reaped {
			late += p.Tick
		}
		if x.At < 0 || x.At > x.Due+late+slack {
			errs = append(errs, fmt.Errorf("%s was due at %s and ended at %s", x.Text, x.Due.Round(time.Millisecond), x.At.Round(time.Millisecond)))
		}
	}
	return errors.Join(errs...)
}

// CompareEndings returns the first difference of two runs, or nil, times apart.
func CompareEndings(a, b *Endings) error {
	for i, who := range []string{"recursive watch", "one-shot watches"} {
		if err := firstDifference(who, groups(a.Watched[i]), groups(b.Watched[i])); err != nil {
			return err
		}
	}
	if err := firstDifference("note", a.Notes, b.Notes); err != nil {
		return err
	}
	return firstDifference("tree", a.Tree, b.Tree)
}

func firstDifference(what string, a, b []string) error {
	for i := range max(len(a), len(b)) {
		x, y := "nothing", "nothing"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Errorf("%s, number %d:\n  apache  %s\n  zkserver %s", what, i, x, y)
		}
	}
	return nil
}

// groups joins the events of one transaction, in an order of their own: neither server promises one.
func groups(v []Moment) []string {
	var out []string
	for i := 0; i < len(v); {
		n := i
		var texts []string
		for ; n < len(v) && v[n].Zxid == v[i].Zxid; n++ {
			texts = append(texts, v[n].Text)
		}
		slices.Sort(texts)
		out = append(out, strings.Join(texts, ", "))
		i = n
	}
	return out
}
