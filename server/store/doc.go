// Package store keeps what a server must not forget, in two Pebble stores on one vfs.FS: log/ (in LogDir) holds the
// transactions and everything that is promised to peers, state.<zxid>.<n>/ (in DataDir) the applied tree.
//
// It promises: what Persist returned for is on the disk, and is there after any crash; the state is never ahead of
// the durable log, and is always an exact prefix of it; damage that is not a torn tail is refused by name before
// anything on the disk is changed. It never decides what to write: that is the replica's part. It never exits the
// process and never goes on after a disk error: Options.Fatal is told, and whoever met the error is parked.
//
// It may import zab and znode (types only), Pebble and zerolog. Begin reading at store.go (the handle and what may
// be called from where), then open.go (start-up), persist.go (the log) and state.go (the applied state). Keys and
// values are in format.go and codec.go.
package store
