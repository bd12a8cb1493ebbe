package store

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

// What is on the disk. Changing anything here needs a new formatVersion and a way to read the old one.

// formatVersion is ours: the keys and values of both stores. A higher one is refused.
const formatVersion = 1

// pebbleFormat is Pebble's format of both stores, stated and never "the newest": a downgrade dies at a ratchet.
// It must be at least FormatWALSyncChunks, from which on a flipped bit before the tail of a WAL is noticed.
const pebbleFormat = pebble.FormatWALSyncChunks

const (
	logName     = "log"
	statePrefix = "state."
	lockName    = "LOCK"
)

// Keys of log/: one prefix byte a kind. Meta sorts behind the entries.
//
//	e<zxid>   an entry, its Data as it is
//	mb        base: the log holds (base, end]
//	me        ensemble id
//	mh        hard state, commit point and end: written by every batch that changes any of the log
//	mi        format, server id, instance id
//	ms        name of the state directory
//	mt<epoch> last zxid of that epoch, for every epoch but that of the end
const (
	keyEntry      = 'e'
	keyMeta       = 'm'
	keyBase       = "mb"
	keyEnsemble   = "me"
	keyHard       = "mh"
	keyIdentity   = "mi"
	keyStateName  = "ms"
	keyEpochTable = "mt"
)

// Keys of a state directory. Paths are stored with '/' as a zero byte, so that the order of keys is that of a walk:
// a node, then everything below it, then its next sibling.
//
//	a<id>    a list of ACLs
//	d<path>  data that is too long to lie beside the stat
//	i        format, server id, instance id
//	n<path>  stat, id of the ACL list, short data
//	s<id>    a session
//	z        zxid of the last applied transaction, digests after it
const (
	keyACL      = 'a'
	keyData     = 'd'
	keyStateID  = 'i'
	keyNode     = 'n'
	keySession  = 's'
	keyApplied  = 'z'
	inlineLimit = 256 // bytes of data that lie beside the stat: one key instead of two
)

// order of the fixed-width integers in keys and values. Keys must be big-endian to sort; values follow them.
var order = binary.BigEndian

func appendEntryKey(dst []byte, z zab.Zxid) []byte {
	return order.AppendUint64(append(dst, keyEntry), uint64(z))
}

func entryKey(z zab.Zxid) []byte { return appendEntryKey(make([]byte, 0, 9), z) }

// entriesEnd sorts behind every entry.
func entriesEnd() []byte { return []byte{keyEntry + 1} }

func entryZxid(key []byte) (zab.Zxid, error) {
	if len(key) != 9 || key[0] != keyEntry {
		return 0, malformed("entry with the key %x", key)
	}
	return zab.Zxid(order.Uint64(key[1:])), nil
}

func epochKey(e zab.Epoch) []byte { return order.AppendUint32([]byte(keyEpochTable), uint32(e)) }

// stateDirName is never that of an existing directory: n is fresh.
func stateDirName(z zab.Zxid, n uint64) string {
	return fmt.Sprintf("%s%x.%d", statePrefix, uint64(z), n)
}

// parseStateDir returns n of a state directory's name.
func parseStateDir(name string) (n uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, statePrefix)
	if !ok {
		return 0, false
	}
	z, num, ok := strings.Cut(rest, ".")
	if !ok {
		return 0, false
	}
	if _, err := strconv.ParseUint(z, 16, 64); err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(num, 10, 64)
	return n, err == nil
}

// identity stamps a directory.
type identity struct {
	format   uint32
	server   zab.ServerID
	instance zab.ID
}

func (i identity) encode() []byte {
	b := order.AppendUint32(make([]byte, 0, 20), i.format)
	b = order.AppendUint64(b, uint64(i.server))
	return order.AppendUint64(b, uint64(i.instance))
}

// decodeIdentity reads the format of any version, the rest only of those it knows.
func decodeIdentity(b []byte) (identity, error) {
	if len(b) < 4 {
		return identity{}, malformed("identity of %d bytes", len(b))
	}
	i := identity{format: order.Uint32(b)}
	if i.format > formatVersion {
		return i, nil
	}
	if len(b) != 20 {
		return identity{}, malformed("identity of %d bytes", len(b))
	}
	i.server = zab.ServerID(order.Uint64(b[4:]))
	i.instance = zab.ID(order.Uint64(b[12:]))
	return i, nil
}

// hardRecord is the value of keyHard.
type hardRecord struct {
	hard   zab.HardState
	commit zab.Zxid
	last   zab.Zxid
}

func (h hardRecord) append(dst []byte) []byte {
	dst = order.AppendUint32(dst, uint32(h.hard.Accepted))
	dst = order.AppendUint32(dst, uint32(h.hard.Current))
	dst = order.AppendUint64(dst, uint64(h.commit))
	return order.AppendUint64(dst, uint64(h.last))
}

func decodeHard(b []byte) (hardRecord, error) {
	if len(b) != 24 {
		return hardRecord{}, malformed("hard state of %d bytes", len(b))
	}
	return hardRecord{
		hard:   zab.HardState{Accepted: zab.Epoch(order.Uint32(b)), Current: zab.Epoch(order.Uint32(b[4:]))},
		commit: zab.Zxid(order.Uint64(b[8:])),
		last:   zab.Zxid(order.Uint64(b[16:])),
	}, nil
}

func decodeZxid(b []byte) (zab.Zxid, error) {
	if len(b) != 8 {
		return 0, malformed("zxid of %d bytes", len(b))
	}
	return zab.Zxid(order.Uint64(b)), nil
}
