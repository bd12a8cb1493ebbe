//go:build race

package znode

// raced: the race detector takes several times the processor, so what a thing takes cannot be judged.
const raced = true
