package zab

// Member is one server of the ensemble as zoo.cfg names it.
type Member struct {
	ID       ServerID
	Observer bool
	Group    uint64 // zero: no groups, plain majority
	Weight   uint64 // only with groups; taken as it is: the configuration fills in the default of 1
}

// Verifier decides what a quorum is. Implementations are values: immutable, comparable by content.
type Verifier interface {
	// Quorum reports whether the voters for which has is true form one.
	Quorum(has func(ServerID) bool) bool
	// Voter reports whether id has a vote.
	Voter(id ServerID) bool
	// Weight of a voter; zero for everybody else. A voter of weight zero is never elected.
	Weight(id ServerID) uint64
	// Voters in ascending order.
	Voters() []ServerID
}
