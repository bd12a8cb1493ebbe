package main

import "slices"

// partition is what the tree says of one: the data of its node, as JSON.
type partition struct {
	Replicas    []int `json:"replicas"`     // the brokers that keep it, the preferred leader first
	Leader      int   `json:"leader"`       // nobody, or one that is in sync
	InSync      []int `json:"isr"`          // never empty: the last ones that were in sync are who may lead again
	LeaderEpoch int   `json:"leader_epoch"` // grows with every change of the leader
	Controller  int64 `json:"controller"`   // the token of the controller that wrote this
}

// nobody leads.
const nobody = -1

// plan is what a partition should be when these brokers live, and whether that is a change. The leader is one of the
// replicas that were in sync; there is none rather than one that was not. A replica that is back is taken in at once: in
// this program there is nothing that it had to catch up with.
func plan(p partition, live map[int]bool) (partition, bool) {
	next := p
	dead := func(id int) bool { return !live[id] }
	if inSync := slices.DeleteFunc(slices.Clone(p.InSync), dead); len(inSync) > 0 {
		next.InSync = inSync
	}
	if dead(p.Leader) || !slices.Contains(next.InSync, p.Leader) {
		next.Leader = nobody
		for _, id := range p.Replicas {
			if live[id] && slices.Contains(next.InSync, id) {
				next.Leader = id
				break
			}
		}
	}
	if next.Leader != nobody {
		for _, id := range p.Replicas {
			if live[id] && !slices.Contains(next.InSync, id) {
				next.InSync = append(slices.Clip(next.InSync), id)
			}
		}
	}
	if next.Leader != p.Leader {
		next.LeaderEpoch++
	}
	return next, next.Leader != p.Leader || !slices.Equal(next.InSync, p.InSync)
}
