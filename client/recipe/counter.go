package recipe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/zkserver/zkserver/client"
)

// CounterFormat is how a Counter is written, so that others can read it.
type CounterFormat int

// The formats.
const (
	Decimal CounterFormat = iota // text, as kazoo's Counter writes it
	Int32                        // four bytes, the largest first: Curator's SharedCount and DistributedAtomicInteger, kazoo's Counter with support_curator
	Int64                        // eight bytes, the largest first: Curator's DistributedAtomicLong
)

// ErrRange says that a number does not fit a counter.
var ErrRange = errors.New("recipe: out of the counter's range")

// Counter is a Value that is a number, with all that is said there: each Add counts once, also when its reply gets lost.
type Counter struct {
	v *Value
	f CounterFormat
}

// NewCounter names a counter; it does nothing yet. A node that is not there, or is empty, is zero. Everybody has to give
// the same format.
func NewCounter(c *client.Client, path string, f CounterFormat, o Options) *Counter {
	n := &Counter{v: NewValue(c, path, o), f: f}
	n.v.first, _ = n.write(0)
	return n
}

// Get reads the number. Errors as of Value.Get, or that the data is no number.
func (n *Counter) Get(ctx context.Context) (int64, error) {
	data, _, err := n.v.Get(ctx)
	if err != nil {
		return 0, err
	}
	return n.read(data)
}

// Set replaces the number. Errors as of Value.Set, ErrRange.
func (n *Counter) Set(ctx context.Context, to int64) error {
	data, err := n.write(to)
	if err != nil {
		return err
	}
	return n.v.Set(ctx, data)
}

// Add adds to the number, which may be negative, and returns the sum. Errors as of Value.Update, ErrRange; with one that
// client.MaybeApplied reports, it may have been added, and the sum is what it is then.
func (n *Counter) Add(ctx context.Context, delta int64) (sum int64, err error) {
	_, err = n.v.Update(ctx, func(old []byte) ([]byte, error) {
		was, err := n.read(old)
		if err != nil {
			return nil, err
		}
		if delta > 0 && was > math.MaxInt64-delta || delta < 0 && was < math.MinInt64-delta {
			return nil, ErrRange
		}
		sum = was + delta
		return n.write(sum)
	})
	if err != nil && !client.MaybeApplied(err) {
		sum = 0
	}
	return sum, err
}

func (n *Counter) read(data []byte) (int64, error) {
	switch {
	case len(data) == 0:
		return 0, nil
	case n.f == Int32 && len(data) == 4:
		return int64(int32(binary.BigEndian.Uint32(data))), nil
	case n.f == Int64 && len(data) == 8:
		return int64(binary.BigEndian.Uint64(data)), nil
	case n.f == Decimal:
		if i, err := strconv.ParseInt(string(data), 10, 64); err == nil {
			return i, nil
		}
	}
	return 0, fmt.Errorf("recipe: %s: %d bytes that are no number of the counter's format", n.v.path, len(data))
}

func (n *Counter) write(i int64) ([]byte, error) {
	switch n.f {
	case Int32:
		if i < math.MinInt32 || i > math.MaxInt32 {
			return nil, ErrRange
		}
		return binary.BigEndian.AppendUint32(nil, uint32(i)), nil
	case Int64:
		return binary.BigEndian.AppendUint64(nil, uint64(i)), nil
	}
	return strconv.AppendInt(nil, i, 10), nil
}
