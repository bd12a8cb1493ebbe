package watch

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/znode"
	"pgregory.net/rapid"
)

func TestSubtreeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sub, model := NewSubtree(), map[string]map[Watcher]bool{}
		path := rapid.SampledFrom([]string{"/", "/a", "/ab", "/a/b", "/a/b/c", "/a/bc", "", "rel"})
		watcher := rapid.Map(rapid.Uint32Range(1, 5), func(n uint32) Watcher { return Watcher(n) })
		count := func() (n int) {
			for _, ws := range model {
				n += len(ws)
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				p, w := path.Draw(t, "path"), watcher.Draw(t, "watcher")
				sub.Add(p, w)
				if model[p] == nil {
					model[p] = map[Watcher]bool{}
				}
				model[p][w] = true
			},
			"disarm": func(t *rapid.T) {
				p, w := path.Draw(t, "path"), watcher.Draw(t, "watcher")
				if sub.Disarm(p, w) != model[p][w] {
					t.Fatal("disarm")
				}
				delete(model[p], w)
			},
			"remove": func(t *rapid.T) {
				w := watcher.Draw(t, "watcher")
				sub.Remove(w)
				for _, ws := range model {
					delete(ws, w)
				}
			},
			"match": func(t *rapid.T) {
				ev := znode.Event{Type: znode.EventType(rapid.IntRange(1, 4).Draw(t, "type"))}
				ev.Path = rapid.SampledFrom([]string{"/", "/a", "/ab", "/a/b", "/a/b/c", "/a/b/c/d/e", "/z"}).Draw(t, "path")
				given := []Watcher{9, 2} // the first is another event's
				got := sub.Match(&ev, given, 1)
				var want []Watcher
				for p, ws := range model {
					under := p == ev.Path || p == "/" || p != "" && strings.HasPrefix(ev.Path, p+"/")
					for w := range ws {
						if under && ev.Type != znode.EventChildrenChanged {
							want = append(want, w)
						}
					}
				}
				want = append(want, 2)
				slices.Sort(want)
				want = append([]Watcher{9}, slices.Compact(want)...)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %v, want %v", ev.Path, got, want)
				}
			},
			"": func(t *rapid.T) {
				seen := 0
				sub.Each(func(p string, w Watcher) bool {
					if !model[p][w] || !sub.Armed(p, w) {
						t.Fatalf("%s %d", p, w)
					}
					seen++
					return true
				})
				if n, _, _ := sub.Count(); n != count() || seen != n {
					t.Fatalf("%d watches, saw %d, model %d", n, seen, count())
				}
			},
		})
	})
}

// A server with recursive watches on short paths must not pay for deep nodes: only ancestors up to the longest armed
// path are looked up.
func BenchmarkMatchDeep(b *testing.B) {
	sub := NewSubtree()
	sub.Add("/a", 1)
	ev := &znode.Event{Type: znode.EventDataChanged, Path: strings.Repeat("/a", 1000)}
	var out []Watcher
	b.ReportAllocs()
	for b.Loop() {
		out = sub.Match(ev, out[:0], 0)
	}
}
