package zab

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// NewVerifier takes Hierarchical when any voter is in a group, else Majority.
func NewVerifier(members []Member) Verifier {
	for _, m := range members {
		if !m.Observer && m.Group != 0 {
			return NewHierarchical(members)
		}
	}
	return NewMajority(members)
}

// ConfigSum is the hash of the voter list, with groups and weights where there are any: servers whose sums differ
// would count different quorums, so they refuse each other by name.
func ConfigSum(members []Member) uint64 {
	voters := make([]Member, 0, len(members))
	grouped := false
	for _, m := range members {
		if !m.Observer {
			voters = append(voters, m)
			grouped = grouped || m.Group != 0
		}
	}
	slices.SortFunc(voters, func(a, b Member) int { return cmpID(a.ID, b.ID) })
	h := fnv.New64a()
	var row [24]byte
	for _, m := range voters {
		binary.LittleEndian.PutUint64(row[0:], uint64(m.ID))
		if grouped {
			binary.LittleEndian.PutUint64(row[8:], m.Group)
			binary.LittleEndian.PutUint64(row[16:], m.Weight)
		}
		h.Write(row[:])
	}
	return h.Sum64()
}

func cmpID(a, b ServerID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func votersOf(members []Member) []ServerID {
	ids := make([]ServerID, 0, len(members))
	for _, m := range members {
		if !m.Observer {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Majority is the plain quorum: more than half of the voters. Weights are ignored, as in ZooKeeper.
type Majority struct{ voters []ServerID }

// NewMajority takes the voters among members.
func NewMajority(members []Member) *Majority { return &Majority{voters: votersOf(members)} }

// Quorum implements Verifier.
func (m *Majority) Quorum(has func(ServerID) bool) bool {
	n := 0
	for _, id := range m.voters {
		if has(id) {
			n++
		}
	}
	return n > len(m.voters)/2
}

// Voter implements Verifier.
func (m *Majority) Voter(id ServerID) bool { _, ok := slices.BinarySearch(m.voters, id); return ok }

// Weight implements Verifier.
func (m *Majority) Weight(id ServerID) uint64 {
	if m.Voter(id) {
		return 1
	}
	return 0
}

// Voters implements Verifier. The slice is shared: it must not be changed.
func (m *Majority) Voters() []ServerID { return m.voters }

// Hierarchical wants more than half of the weight in more than half of the groups; groups of weight zero do not
// count. Member.Weight is taken as it is: zero means a voter that is never elected and never counted.
type Hierarchical struct {
	voters []ServerID
	rows   []groupRow // ascending by voter
	groups []uint64   // ids of those with weight, ascending
	total  []uint64   // weight of groups[i]
}

type groupRow struct {
	id     ServerID
	weight uint64
	group  int // index into groups; -1 for a group without weight
}

// NewHierarchical takes the voters among members. Voters without a group are together in group 0.
func NewHierarchical(members []Member) *Hierarchical {
	h := &Hierarchical{voters: votersOf(members)}
	for _, m := range members {
		if m.Observer || m.Weight == 0 {
			continue
		}
		i, ok := slices.BinarySearch(h.groups, m.Group)
		if !ok {
			h.groups = slices.Insert(h.groups, i, m.Group)
			h.total = slices.Insert(h.total, i, 0)
		}
		h.total[i] += m.Weight
	}
	for _, m := range members {
		if m.Observer {
			continue
		}
		row := groupRow{id: m.ID, weight: m.Weight, group: -1}
		if i, ok := slices.BinarySearch(h.groups, m.Group); ok {
			row.group = i
		}
		h.rows = append(h.rows, row)
	}
	slices.SortFunc(h.rows, func(a, b groupRow) int { return cmpID(a.id, b.id) })
	return h
}

// Quorum implements Verifier.
func (h *Hierarchical) Quorum(has func(ServerID) bool) bool {
	var few [8]uint64
	sum := few[:0]
	if len(h.groups) > len(few) {
		sum = make([]uint64, 0, len(h.groups))
	}
	sum = sum[:len(h.groups)]
	for _, r := range h.rows {
		if r.group >= 0 && has(r.id) {
			sum[r.group] += r.weight
		}
	}
	won := 0
	for i, s := range sum {
		if s > h.total[i]/2 {
			won++
		}
	}
	return won > len(h.groups)/2
}

// Voter implements Verifier.
func (h *Hierarchical) Voter(id ServerID) bool { _, ok := slices.BinarySearch(h.voters, id); return ok }

// Weight implements Verifier.
func (h *Hierarchical) Weight(id ServerID) uint64 {
	i, ok := slices.BinarySearchFunc(h.rows, id, func(r groupRow, id ServerID) int { return cmpID(r.id, id) })
	if !ok {
		return 0
	}
	return h.rows[i].weight
}

// Voters implements Verifier. The slice is shared: it must not be changed.
func (h *Hierarchical) Voters() []ServerID { return h.voters }
