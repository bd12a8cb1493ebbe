//go:build race

package znode

// raced: pools drop at random under the race detector, so allocations cannot be counted.
const raced = true
