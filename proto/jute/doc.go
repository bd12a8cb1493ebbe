// Package jute is ZooKeeper's client wire: every record, opcode, error code and number that a client and a server of
// Apache ZooKeeper 3.2 to 3.9 exchange, encoded and decoded, in both directions, byte for byte.
//
// Every record has two methods and no reflection:
//
//	func (r *T) Append(dst []byte) []byte // never fails, allocates only to grow dst
//	func (r *T) Decode(d *Decoder)        // errors stick to d; see Decoder.Err
//
// Begin reading at Decoder (what the bytes may say), then records.go (the operations), session.go (connecting), multi.go
// and frame.go. NewRequest and NewResponse map an opcode to its records.
//
// What the package promises:
//   - No input panics, and no number in the input decides an allocation: lengths are checked against what is left of the
//     frame, vectors grow by the elements that are really there.
//   - Null and empty are kept apart: a null string is String{Null: true}, a null buffer or vector is nil.
//   - What a canonical encoder wrote is encoded to the same bytes again. Not canonical, but read: a boolean other than
//     0 and 1 (true), a vector count below -1 (empty).
//   - Bytes after a complete record are left in the Decoder (Rest) and ignored by convention, as ZooKeeper does.
//
// It never opens a socket, never logs, and decides nothing about the meaning of a request: whether flags, versions, modes
// or paths are good is the business of whoever serves them. It imports the standard library only.
package jute
