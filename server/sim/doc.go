// Package sim runs whole ensembles of the code that ships inside one goroutine and without real time: the cores, the
// replica's Machine and apply step, the sessions' connections, the tree and its watches, over a modelled disk, network
// and clock. One seed decides everything: what happens, when, and what breaks. server/sim/check says after each step
// whether the invariants hold. docs/correctness.md says how to run it and what it has found.
package sim
