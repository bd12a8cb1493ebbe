// Package explore runs the pure cores through every interleaving of a small ensemble: not a model of them, the code
// that ships. Three servers, a few transactions, crashes and cut links within a budget; each state is visited once, up
// to renaming of servers, and the invariants I1-I5 of the architecture are checked at each step.
//
// It imports the cores and nothing else of the product. Begin reading at world.go (what a state is and what may happen
// in it), then node.go (one server: core, disk and tree, stepped once per distinct state and input and remembered),
// ghost.go (what no server knows, and the invariants) and search.go. The election has its own world in ballot.go.
package explore
