package sim

// rng is a small source of randomness (splitmix64). Each server, link and client has its own, so that leaving out a
// fault or a client disturbs the others as little as it can.
type rng uint64

// stream makes an independent source from a seed and a name.
func stream(seed uint64, a, b int) rng {
	r := rng(seed ^ uint64(a+1)*0x9e3779b97f4a7c15 ^ uint64(b+1)*0xc2b2ae3d27d4eb4f)
	r.Uint64()
	return r
}

// Uint64 makes it a rand.Source.
func (r *rng) Uint64() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *rng) n(k int) int {
	if k <= 1 {
		return 0
	}
	return int(r.Uint64() % uint64(k))
}

// between is in [lo, hi).
func (r *rng) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + int64(r.Uint64()%uint64(hi-lo))
}

// chance is true n times in a thousand.
func (r *rng) chance(n int) bool { return int(r.Uint64()%1000) < n }

// delay is mostly near lo, seldom near hi.
func (r *rng) delay(lo, hi int64) int64 {
	switch r.n(16) {
	case 0:
		return r.between(lo, hi)
	case 1, 2, 3:
		return r.between(lo, lo+(hi-lo)/4)
	}
	return r.between(lo, lo+(hi-lo)/16)
}
