// Package differential runs seeded programs of random client operations through the raw wire against Apache ZooKeeper
// and against this server, and compares what came back: replies, error codes, Stats, zxids counted from the program's
// start, names of sequential nodes, and the order of replies and events on each connection. A program that differs is
// shrunk and printed as a script that can be run again.
//
// It may import proto/jute only. Begin reading in program.go (what a program is), then generate.go, execute.go,
// compare.go; .ci/differential runs it.
//
// A program is a list of steps. In a step one session sends a burst of pipelined requests, or several sessions send
// bursts of reads at once. When all of its replies are there, a ping on every other connection brings in the events that
// the step caused. So what each connection sees is determined, down to the order of replies and events.
//
// What is masked: session ids (named by the session's slot), passwords, the order of children, ephemerals and identities,
// the order of a list that the scheme auth was expanded in, and times, which are checked on each side instead: one zxid
// has one time, and later ones are not earlier. The events of a session's ephemerals at its end are compared as a set:
// Apache deletes them in the order of a hash table, this server in the order of their paths.
//
// What programs leave out, because Apache's answer is a race, kills it, or is departed from on purpose:
//   - a write pipelined behind a setACL, which Apache judges by the old or the new list;
//   - writes pipelined under a quota, which Apache checks against what happens to be applied;
//   - auth among pipelined requests: its answer overtakes, and so does that to an unknown opcode;
//   - a write pipelined behind closeSession: Apache takes a zxid for it if it reads it before it hangs up (reads are sent;
//     whether they are answered SESSIONEXPIRED or UNKNOWNSESSION, or not, is passed over);
//   - a multi in which a null id follows other operations: Apache answers MARSHALLINGERROR but does not take back what it had
//     prepared, and a write pipelined behind it may count children that there never were;
//   - setWatches with a null list: Apache has dealt with the lists before it when it fails;
//   - an attach with a wrong password while the session's connection lives;
//   - deleteContainer and createSession from a client;
//   - createTTL without a TTL flag and with a negative time, zookeeper_limits at the root or outside the tree of quotas,
//     and zookeeper_stats that do not parse: each ends Apache's process;
//   - expiry of sessions, containers and TTL nodes, which take seconds: they have programs of their own (expiry.go), in
//     which one thing ends at a time. Compared are what two observers see of each end, the order of the ends, what is
//     left, and whether it can be taken up again; each end must come no sooner than it is due and within ticks of it.
//
// Against an ensemble each session has a server of its own and moves to the next when it attaches; the steps are kept
// apart by syncs instead of pings, and programs keep off the config node, which is the one thing that differs.
package differential
