package differential

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// endingRun runs an Ending.
type endingRun struct {
	renderer
	p     *Ending
	addr  string
	start time.Time
	zero  time.Duration // when all was prepared
	out   *Endings
	plan  []action
	all   []*liveSession
	reads sync.WaitGroup

	watcher, once, maker *liveSession
}

// action is done at a time, counted from when all is prepared.
type action struct {
	at time.Duration
	do func() error
}

// ExecuteEnding runs a program on the server at addr, below root, which must not exist.
func ExecuteEnding(addr, root string, p *Ending) (*Endings, error) {
	r := &endingRun{renderer: renderer{env: env{root: root}, sessions: map[int64]string{}}, p: p, addr: addr, start: time.Now(), out: &Endings{}}
	defer func() {
		for _, s := range r.all {
			s.hush()
			s.hangUp()
		}
		r.reads.Wait()
	}()
	return r.out, r.run()
}

func (r *endingRun) run() error {
	for _, x := range []struct {
		name string
		s    **liveSession
	}{{"watcher", &r.watcher}, {"once", &r.once}, {"maker", &r.maker}} {
		var err error
		if *x.s, err = r.session(x.name, 20); err != nil {
			return err
		}
	}
	if err := r.made("~", jute.OpCreate, 0); err != nil {
		return err
	}
	if err := r.made("~/never", jute.OpCreateContainer, jute.FlagsContainer); err != nil {
		return err
	}
	for i := range r.p.slots {
		if err := r.prepare(fmt.Sprintf("~/d%d", i), &r.p.slots[i]); err != nil {
			return err
		}
	}
	if _, err := r.watcher.call(Request{Op: OpName(jute.OpAddWatch), Path: "~", Mode: int32(jute.AddWatchPersistentRecursive)}); err != nil {
		return err
	}
	r.zero = time.Since(r.start)
	slices.SortStableFunc(r.plan, func(a, b action) int { return int(a.at - b.at) })
	for _, a := range r.plan {
		r.until(a.at)
		if err := a.do(); err != nil {
			return err
		}
	}
	r.until(time.Duration(len(r.p.slots)+1) * slotTicks * r.p.Tick)
	if err := r.tree("~"); err != nil {
		return err
	}
	for i, s := range []*liveSession{r.watcher, r.once} {
		if _, err := s.call(Request{Op: OpName(jute.OpExists), Path: "~"}); err != nil { // what came before it has been read
			return err
		}
		s.hush()
		s.hangUp()
		<-s.ended
		r.out.Watched[i] = s.seen
	}
	for i := range r.out.Ends {
		e := &r.out.Ends[i]
		if at := slices.IndexFunc(r.out.Watched[0], func(m Moment) bool { return m.Text == e.Text }); at >= 0 {
			e.At = r.out.Watched[0][at].At
		}
	}
	return nil
}

func (r *endingRun) until(at time.Duration) { <-time.After(time.Until(r.start.Add(r.zero + at))) }

func (r *endingRun) at(t time.Duration, do func() error) { r.plan = append(r.plan, action{t, do}) }

func (r *endingRun) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, args...))
}

// ends notes that a node has to go, when the recursive watch must tell of it.
func (r *endingRun) ends(path string, due time.Duration, reaped bool) {
	r.out.Ends = append(r.out.Ends, End{Text: fmt.Sprintf("%s %q", jute.EventNodeDeleted, r.text(path)), Due: due, At: -1, Reaped: reaped})
}

// made creates a persistent node or a container.
func (r *endingRun) made(path string, op jute.OpCode, flags int32) error {
	_, err := r.maker.call(Request{Op: OpName(op), Path: path, ACL: "open", Flags: flags})
	return err
}

// look arms one-shot watches: on a node's data and on a parent's children.
func (r *endingRun) look(path, parent string) error {
	if _, err := r.once.call(Request{Op: OpName(jute.OpGetData), Path: path, Watch: true}); err != nil {
		return err
	}
	_, err := r.once.call(Request{Op: OpName(jute.OpGetChildren), Path: parent, Watch: true})
	return err
}

// prepare makes what a slot needs, and plans its end.
func (r *endingRun) prepare(dir string, e *ending) error {
	switch e.kind {
	case "ttl", "ttl with child":
		if err := r.made(dir, jute.OpCreate, 0); err != nil {
			return err
		}
		r.prepareTTL(dir, e)
		return nil
	case "container", "container of ephemeral":
		if err := r.made(dir, jute.OpCreateContainer, jute.FlagsContainer); err != nil {
			return err
		}
		if e.kind == "container" {
			return r.prepareContainer(dir, e)
		}
		e.names, e.heir = []string{"only"}, false
	default:
		for _, path := range []string{dir, dir + "/sub"} {
			if err := r.made(path, jute.OpCreate, 0); err != nil {
				return err
			}
		}
	}
	return r.prepareSession(dir, e)
}

// again is the time of a TTL node that is set again once: so long that it is still there then, and set a tick before a
// slot's end, when nothing else happens.
func (r *endingRun) again(e *ending) time.Duration {
	ttl := r.p.Tick
	for ttl < e.due/2 {
		ttl += slotTicks * r.p.Tick
	}
	if ttl >= e.due { // in the first slot, before which nothing ends
		return e.due * 2 / 3
	}
	return ttl
}

func (r *endingRun) prepareTTL(dir string, e *ending) {
	tick, path := r.p.Tick, dir+"/ttl"
	r.at(0, func() error {
		ttl := e.due
		if e.kind != "ttl" {
			ttl = tick
		} else if e.refresh {
			ttl = r.again(e)
		}
		q := Request{Op: OpName(jute.OpCreateTTL), Path: path, ACL: "open", Flags: jute.FlagsPersistentTTL, TTL: ttl.Milliseconds()}
		due := time.Since(r.start) + ttl
		if e.kind != "ttl" {
			q = Request{Op: OpName(jute.OpMulti), Ops: []Request{q, {Op: OpName(jute.OpCreate), Path: path + "/child", ACL: "open"}}}
		} else if !e.refresh {
			r.ends(path, due, true)
		}
		if _, err := r.maker.call(q); err != nil {
			return err
		}
		return r.look(path, dir)
	})
	switch {
	case e.kind != "ttl":
		r.at(e.due, func() error {
			r.ends(path, time.Since(r.start), true)
			_, err := r.maker.call(Request{Op: OpName(jute.OpDelete), Path: path + "/child", Version: -1})
			return err
		})
	case e.refresh:
		ttl := r.again(e)
		r.at(e.due-ttl, func() error {
			r.ends(path, time.Since(r.start)+ttl, true)
			_, err := r.maker.call(Request{Op: OpName(jute.OpSetData), Path: path, Data: "again", Version: 0})
			return err
		})
	}
}

func (r *endingRun) prepareContainer(dir string, e *ending) error {
	if err := r.made(dir+"/child", jute.OpCreate, 0); err != nil {
		return err
	}
	r.at(e.due, func() error {
		r.ends(dir, time.Since(r.start), true)
		_, err := r.maker.call(Request{Op: OpName(jute.OpDelete), Path: dir + "/child", Version: -1})
		return err
	})
	return r.look(dir, "~")
}

func (r *endingRun) prepareSession(dir string, e *ending) error {
	name := "session of " + dir
	if e.kind == "moved" {
		e.timeout = 2
	}
	s, err := r.session(name, e.timeout)
	if err != nil {
		return err
	}
	var first string
	for i, n := range e.names {
		path := dir + "/" + n
		f, err := s.call(Request{Op: OpName(jute.OpCreate), Path: path, ACL: "open", Flags: e.flags[i]})
		if err != nil {
			return err
		}
		var made jute.CreateResponse
		made.Decode(jute.NewDecoder(f.body))
		path = r.text(made.Path.Value)
		if first == "" {
			first = path
		}
		if err := r.look(path, path[:strings.LastIndex(path, "/")]); err != nil {
			return err
		}
	}
	if e.reads {
		s.reading.Store(true)
	}
	expires := func() {
		r.ends(first, s.heard+s.timeout(), false)
		if e.kind == "container of ephemeral" {
			r.ends(dir, s.heard+s.timeout(), true)
		}
	}
	tick := r.p.Tick
	switch e.kind {
	case "silent", "cut", "container of ephemeral":
		r.at(e.due-s.timeout(), func() error {
			s.hush()
			if e.kind == "cut" {
				s.hangUp()
			}
			expires()
			return nil
		})
	case "moved":
		r.at(e.due-3*tick, func() error { s.hush(); s.hangUp(); return nil })
		r.at(e.due-2*tick, func() error {
			<-s.ended
			if err := s.attach(); err != nil {
				return err
			}
			s.hush()
			expires()
			return nil
		})
	case "closed":
		r.at(e.due, func() error {
			s.hush()
			r.ends(first, time.Since(r.start), false)
			_, err := s.call(Request{Op: OpName(jute.OpCloseSession)})
			r.note("%s: closed: %v", name, err)
			return nil
		})
	}
	r.at(e.due+4*tick, func() error {
		if e.kind != "cut" {
			select {
			case <-s.ended:
			case <-time.After(patience):
				r.note("%s: its connection does not end", name)
			}
		}
		r.note("%s: attached again: %v", name, s.attach())
		if !e.heir {
			return nil
		}
		_, err := r.maker.call(Request{Op: OpName(jute.OpCreate), Path: first, ACL: "open", Flags: jute.FlagsEphemeral})
		r.note("%s: its heir: %v", name, err)
		return nil
	})
	return nil
}

// tree notes what is left below a path.
func (r *endingRun) tree(path string) error {
	f, err := r.watcher.call(Request{Op: OpName(jute.OpGetData), Path: path})
	if err != nil {
		return err
	}
	var data jute.GetDataResponse
	data.Decode(jute.NewDecoder(f.body))
	if f, err = r.watcher.call(Request{Op: OpName(jute.OpGetChildren), Path: path}); err != nil {
		return err
	}
	var kids jute.GetChildrenResponse
	kids.Decode(jute.NewDecoder(f.body))
	owner := "nobody"
	if id := data.Stat.EphemeralOwner; id != 0 {
		if owner = r.sessions[id]; owner == "" {
			owner = fmt.Sprintf("%#x", uint64(id)) // of a container or a TTL node
		}
	}
	st := &data.Stat
	r.out.Tree = append(r.out.Tree, fmt.Sprintf("%s %q v%d cv%d av%d n=%d of %s", path, data.Data, st.Version, st.Cversion, st.Aversion, st.NumChildren, owner))
	slices.Sort(kids.Children)
	for _, k := range kids.Children {
		if err := r.tree(path + "/" + k); err != nil {
			return err
		}
	}
	return nil
}

var errRefused = errors.New("refused")
