package zab

// Reason says why a role or a link ended. The string is what logs and metrics show.
type Reason string

// Reasons of stepping down, refusing and cutting.
const (
	ReasonNone            Reason = ""
	ReasonLostQuorum      Reason = "lost quorum"
	ReasonLeaderGone      Reason = "leader gone"
	ReasonLeaderSilent    Reason = "leader silent"
	ReasonNoProgress      Reason = "no progress"
	ReasonSupersededEpoch Reason = "higher epoch seen"
	ReasonBehindLearner   Reason = "a learner's history is ahead"
	ReasonNoSupport       Reason = "no quorum can support"
	ReasonInitTimeout     Reason = "initLimit passed"
	ReasonHandOver        Reason = "hand-over"
	ReasonStopping        Reason = "stopping"
	ReasonBadMessage      Reason = "unexpected message"
	ReasonGap             Reason = "proposal does not continue the log"
	ReasonForeignEnsemble Reason = "foreign ensemble"
	ReasonDoubledID       Reason = "server id in use"
	ReasonVoterList       Reason = "differing voter lists"
	ReasonDeliveredBeyond Reason = "delivered beyond the leader's log"
	ReasonEpochLimit      Reason = "epochs used up"
	ReasonReplaced        Reason = "replaced by a newer link"
	ReasonVersion         Reason = "protocol version"
	ReasonTables          Reason = "histories contradict each other"
	ReasonLogCut          Reason = "the log was cut"
	ReasonLearnerSilent   Reason = "learner silent"
)
