package watch

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/zkserver/zkserver/znode"
	"pgregory.net/rapid"
)

func fire(t *Table, typ znode.EventType, path string) []Watcher {
	return t.Fire(&znode.Event{Type: typ, Path: path}, nil)
}

func TestFire(t *testing.T) {
	all := []znode.EventType{znode.EventCreated, znode.EventDeleted, znode.EventDataChanged, znode.EventChildrenChanged}
	for _, c := range []struct {
		name  string
		kinds []Kind
		fires []znode.EventType
	}{
		{"data", []Kind{Data}, all[:3]},
		{"child", []Kind{Child}, []znode.EventType{znode.EventDeleted, znode.EventChildrenChanged}},
		{"both", []Kind{Data, Child}, all},
		{"persistent", []Kind{Persistent}, all},
		{"all", []Kind{Data, Child, Persistent}, all},
	} {
		for _, typ := range all {
			tab := NewTable()
			for _, k := range c.kinds {
				tab.Add(k, "/a", 7)
				tab.Add(k, "/a", 7) // setting it twice has no effect
				tab.Add(k, "/ab", 7)
				tab.Add(k, "/", 7)
			}
			got := fire(tab, typ, "/a")
			if want := slices.Contains(c.fires, typ); want != slices.Equal(got, []Watcher{7}) || !want && got != nil {
				t.Errorf("%s, event %d: %v", c.name, typ, got)
			}
			stays := slices.Contains(c.kinds, Persistent)
			if got != nil && (fire(tab, typ, "/a") != nil) != stays {
				t.Errorf("%s, event %d: the second time", c.name, typ)
			}
		}
	}
}

func TestFireAppends(t *testing.T) {
	tab := NewTable()
	for _, w := range []Watcher{5, 3, 9} {
		tab.Add(Data, "/a", w)
	}
	tab.Add(Child, "/a", 4)
	tab.Add(Child, "/a", 9)
	got := tab.Fire(&znode.Event{Type: znode.EventDeleted, Path: "/a"}, []Watcher{9, 1})
	if want := []Watcher{9, 1, 3, 4, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if a, b, c := tab.Count(); a+b+c != 0 {
		t.Errorf("left over: %d %d %d", a, b, c)
	}
}

func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		list         List
		exists       bool
		mzxid, pzxid int64
		want         znode.EventType // 0: arm
	}{
		{DataList, false, 0, 0, znode.EventDeleted},
		{DataList, true, 9, 1, znode.EventDataChanged},
		{DataList, true, 8, 9, 0},
		{ExistList, true, 1, 1, znode.EventCreated},
		{ExistList, false, 0, 0, 0},
		{ChildList, false, 0, 0, znode.EventDeleted},
		{ChildList, true, 1, 9, znode.EventChildrenChanged},
		{ChildList, true, 9, 8, 0},
	} {
		if ev, arm := CatchUp(c.list, c.exists, c.mzxid, c.pzxid, 8); ev != c.want || arm != (c.want == 0) {
			t.Errorf("%+v: %d, %v", c, ev, arm)
		}
	}
	if DataList.Kind() != Data || ExistList.Kind() != Data || ChildList.Kind() != Child {
		t.Error("kinds of lists")
	}
}

// naive is the set of watches that the table is.
type naive map[naiveWatch]bool

type naiveWatch struct {
	path string
	kind Kind
	w    Watcher
}

func (n naive) fire(typ znode.EventType, path string) (out []Watcher) {
	for x := range n {
		data := x.kind == Data && typ != znode.EventChildrenChanged
		child := x.kind == Child && (typ == znode.EventChildrenChanged || typ == znode.EventDeleted)
		if x.path == path && (data || child || x.kind == Persistent) {
			out = append(out, x.w)
			if x.kind != Persistent {
				delete(n, x)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, model := NewTable(), naive{}
		path := rapid.SampledFrom([]string{"/", "/a", "/b", "/a/b"})
		kind := rapid.SampledFrom([]Kind{Data, Child, Persistent})
		watcher := rapid.Map(rapid.Uint32Range(1, 6), func(n uint32) Watcher { return Watcher(n) })
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				x := naiveWatch{path.Draw(t, "path"), kind.Draw(t, "kind"), watcher.Draw(t, "watcher")}
				tab.Add(x.kind, x.path, x.w)
				model[x] = true
			},
			"fire": func(t *rapid.T) {
				typ, p := znode.EventType(rapid.IntRange(1, 4).Draw(t, "type")), path.Draw(t, "path")
				if got, want := fire(tab, typ, p), model.fire(typ, p); !slices.Equal(got, want) {
					t.Fatalf("%v, want %v", got, want)
				}
			},
			"disarm": func(t *rapid.T) {
				x := naiveWatch{path.Draw(t, "path"), kind.Draw(t, "kind"), watcher.Draw(t, "watcher")}
				if got := tab.Disarm(x.kind, x.path, x.w); got != model[x] {
					t.Fatalf("disarm says %v", got)
				}
				delete(model, x)
			},
			"remove": func(t *rapid.T) {
				w := watcher.Draw(t, "watcher")
				tab.Remove(w)
				for x := range model {
					if x.w == w {
						delete(model, x)
					}
				}
			},
			"": func(t *rapid.T) { checkSame(t, tab, model) },
		})
	})
}

func checkSame(t *rapid.T, tab *Table, model naive) {
	var last naiveWatch
	seen, paths, watchers := 0, map[string]bool{}, map[Watcher]bool{}
	tab.Each(func(path string, kind Kind, w Watcher) bool {
		x := naiveWatch{path, kind, w}
		if !model[x] || !tab.Armed(kind, path, w) || seen > 0 && !less(last, x) {
			t.Fatalf("%v after %v", x, last)
		}
		last, paths[path], watchers[w] = x, true, true
		seen++
		return true
	})
	a, b, c := tab.Count()
	if a != len(model) || seen != a || b != len(paths) || c != len(watchers) {
		t.Fatalf("counts %d %d %d, seen %d; model %d", a, b, c, seen, len(model))
	}
	for w, of := range tab.watchers {
		if len(of.refs) > 2*max(of.live, 6)*int(kinds)+2*minSweep {
			t.Fatalf("watcher %d: %d refs, %d live", w, len(of.refs), of.live)
		}
	}
}

func less(a, b naiveWatch) bool {
	if a.path != b.path {
		return a.path < b.path
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.w < b.w
}

// A connection that arms and fires for ever must not grow the table (I13).
func TestRefsAreSwept(t *testing.T) {
	tab := NewTable()
	tab.Add(Data, "/kept", 1)
	for range 10_000 {
		tab.Add(Data, "/a", 1)
		fire(tab, znode.EventDataChanged, "/a")
	}
	if n := len(tab.watchers[1].refs); n > 2*minSweep {
		t.Errorf("%d refs", n)
	}
}

// A watch costs little: here of 1,000 connections, ten on each path, each request with a string of its own.
func TestWatchesAreSmall(t *testing.T) {
	const watchers, each, paths, bound = 1000, 200, 20_000, 120
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	tab := NewTable()
	for i := range each {
		for w := range watchers {
			tab.Add(Data, fmt.Sprintf("/application/members/%010d", (w*each+i)%paths), Watcher(w+1))
		}
	}
	n, at, _ := tab.Count()
	if n != watchers*each || at != paths {
		t.Fatalf("%d watches on %d paths", n, at)
	}
	if cost := (heap() - before) / int64(n); cost > bound {
		t.Errorf("%d bytes a watch", cost)
	} else {
		t.Logf("%d bytes a watch", cost)
	}
	runtime.KeepAlive(tab)
}

func BenchmarkAddFire(b *testing.B) {
	tab := NewTable()
	tab.Add(Data, "/kept", 1)
	ev := &znode.Event{Type: znode.EventDataChanged, Path: "/a"}
	var out []Watcher
	b.ReportAllocs()
	for b.Loop() {
		tab.Add(Data, "/a", 1)
		out = tab.Fire(ev, out[:0])
	}
}

func BenchmarkFanOut(b *testing.B) {
	tab := NewTable()
	ev := &znode.Event{Type: znode.EventDataChanged, Path: "/a"}
	var out []Watcher
	b.ReportAllocs()
	for b.Loop() {
		for w := range Watcher(10_000) {
			tab.Add(Data, "/a", w+1)
		}
		if out = tab.Fire(ev, out[:0]); len(out) != 10_000 {
			b.Fatal(len(out))
		}
	}
}
