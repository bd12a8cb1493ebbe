package znode

import "math"

// ContainerOwner is the raw ephemeralOwner of a container.
const ContainerOwner int64 = math.MinInt64

// MaxTTL is the longest life of a TTL node, in ms.
const MaxTTL int64 = 1<<40 - 1

// ttlOwner is what the upper 24 bits of a TTL node's raw owner hold: extended type, feature 0.
const ttlOwner = 0xff0000

// TTLOwner is the raw ephemeralOwner of a TTL node.
func TTLOwner(ttlMs int64) int64 { return -1<<56 | ttlMs }

// ownerKind is what a raw ephemeralOwner means.
type ownerKind uint8

const (
	ownerNone ownerKind = iota
	ownerSession
	ownerContainer
	ownerTTL
)

func (o *Options) ownerKind(owner int64) ownerKind {
	switch {
	case owner == 0:
		return ownerNone
	case owner == ContainerOwner:
		return ownerContainer
	case o.ExtendedTypes && uint64(owner)>>40 == ttlOwner:
		return ownerTTL
	}
	return ownerSession
}
