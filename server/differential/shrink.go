package differential

import "slices"

// Shrink returns a smaller program that fails as well, by delta debugging: it leaves out steps, then requests, then
// operations of multis, as long as something can be left out and budget runs are not used up. fails must be true of p.
// What is left of a program keeps the rules of pipelining, so every part of one is a program.
func Shrink(p *Program, budget int, fails func(*Program) bool) *Program {
	s := &shrinker{best: p, budget: budget, fails: fails}
	for before := -1; before != s.size() && s.budget > 0; {
		before = s.size()
		s.steps()
		s.requests()
		s.operations()
	}
	return s.best
}

type shrinker struct {
	best   *Program
	budget int
	fails  func(*Program) bool
}

func (s *shrinker) size() int {
	n := len(s.best.Steps)
	s.best.each(func(*Request) { n++ })
	return n
}

// try takes a candidate if it fails.
func (s *shrinker) try(p *Program) bool {
	if s.budget <= 0 {
		return false
	}
	s.budget--
	if !s.fails(p) {
		return false
	}
	s.best = p
	return true
}

// reduce leaves out runs of a list's elements, long ones first. get reads the list of the best program, with makes a
// program with another one.
func reduce[T any](s *shrinker, get func(*Program) []T, with func(*Program, []T) *Program) {
	for size := max(1, len(get(s.best))/2); size >= 1; size /= 2 {
		for at := len(get(s.best)) - 1; at >= 0 && s.budget > 0; at -= size {
			v := get(s.best)
			at = min(at, len(v)-1)
			if at < 0 {
				break
			}
			s.try(with(s.best, slices.Delete(slices.Clone(v), max(0, at-size+1), at+1)))
		}
	}
}

func (s *shrinker) steps() {
	reduce(s, func(p *Program) []Step { return p.Steps }, func(p *Program, v []Step) *Program {
		return &Program{Seed: p.Seed, Sessions: p.Sessions, Steps: v}
	})
}

func (s *shrinker) requests() {
	for i := len(s.best.Steps) - 1; i >= 0; i-- {
		for j := range s.best.Steps[i].Bursts {
			reduce(s, func(p *Program) []Request { return p.Steps[i].Bursts[j].Requests }, func(p *Program, v []Request) *Program {
				return withRequests(p, i, j, v)
			})
		}
	}
}

func (s *shrinker) operations() {
	for i := len(s.best.Steps) - 1; i >= 0; i-- {
		for j := range s.best.Steps[i].Bursts {
			for k := range s.best.Steps[i].Bursts[j].Requests {
				reduce(s, func(p *Program) []Request { return p.Steps[i].Bursts[j].Requests[k].Ops }, func(p *Program, v []Request) *Program {
					requests := slices.Clone(p.Steps[i].Bursts[j].Requests)
					requests[k].Ops = v
					return withRequests(p, i, j, requests)
				})
			}
		}
	}
}

// withRequests is p with other requests in one burst.
func withRequests(p *Program, step, burst int, v []Request) *Program {
	out := &Program{Seed: p.Seed, Sessions: p.Sessions, Steps: slices.Clone(p.Steps)}
	st := &out.Steps[step]
	st.Bursts = slices.Clone(st.Bursts)
	st.Bursts[burst].Requests = v
	return out
}
