package sim

import "slices"

// Shrink makes a failure smaller as long as the same check fails: fewer faults, clients and requests. It makes at most
// so many runs.
func Shrink(seed uint64, lim Limits, name string, runs int) Limits {
	fails := func(l Limits) bool {
		if runs <= 0 {
			return false
		}
		runs--
		r := Run(seed, l, nil)
		return r.Fault != nil && r.Fault.Name == name
	}
	cfg := NewConfig(seed)
	kept := func() (out []int) {
		for _, f := range cfg.faults {
			if !slices.Contains(lim.Drop, f.index) {
				out = append(out, f.index)
			}
		}
		return out
	}
	for size := len(cfg.faults); size >= 1; size /= 2 {
		for again := true; again; {
			again = false
			k := kept()
			for at := 0; at < len(k); at += size {
				try := lim
				try.Drop = append(slices.Clone(lim.Drop), k[at:min(at+size, len(k))]...)
				if fails(try) {
					lim, again = try, size == 1
					if size > 1 {
						k = kept()
						at -= size
					} else {
						break
					}
				}
			}
		}
	}
	for n := 1; n < cfg.clients; n++ {
		try := lim
		if try.Clients = n; fails(try) {
			lim = try
			break
		}
	}
	for _, n := range []int{1, 3, 10, 30, 100, 300} {
		try := lim
		if try.Ops = n; fails(try) {
			lim = try
			break
		}
	}
	slices.Sort(lim.Drop)
	return lim
}
