package znode

import (
	"encoding/binary"
	"iter"
	"strings"
)

// Names is an immutable list of names, sorted where it comes from a tree. It is kept as the wire has it, in chunks, not
// as a string a name: a list of a hundred thousand is little to the collector, goes into a reply by a few moves, and
// shares with the list after a change all chunks but one. The zero value is empty.
type Names struct {
	n, size int
	chunks  []string
}

const (
	// prefix is how many bytes say how long a name is.
	prefix = 4
	// chunkSize is the length, in bytes, at which a chunk ends with its present name.
	chunkSize = 4 << 10
)

// NamesOf makes a list of these names, in their order.
func NamesOf(names []string) Names {
	var b namesBuilder
	for _, name := range names {
		b.add(name)
	}
	return b.done()
}

// Len counts the names.
func (s Names) Len() int { return s.n }

// Size is how long what Append appends is, in bytes.
func (s Names) Size() int { return s.size }

// Append appends the names, each behind its length in four bytes, big-endian: the elements of a vector of strings on
// ZooKeeper's wire.
func (s Names) Append(dst []byte) []byte {
	for _, c := range s.chunks {
		dst = append(dst, c...)
	}
	return dst
}

// All gives each name.
func (s Names) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, c := range s.chunks {
			for c != "" {
				name := firstName(c)
				if !yield(name) {
					return
				}
				c = c[prefix+len(name):]
			}
		}
	}
}

func firstName(chunk string) string {
	n := int(chunk[0])<<24 | int(chunk[1])<<16 | int(chunk[2])<<8 | int(chunk[3])
	return chunk[prefix : prefix+n]
}

// namesBuilder makes a list out of names and of chunks of another list.
type namesBuilder struct {
	list Names
	open strings.Builder // the names behind those of the list
}

func (b *namesBuilder) add(name string) {
	var size [prefix]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(name)))
	b.open.Write(size[:])
	b.open.WriteString(name)
	b.list.n++
	if b.open.Len() >= chunkSize {
		b.close()
	}
}

// share takes over chunks; their names have been counted.
func (b *namesBuilder) share(chunks []string) {
	b.close()
	for _, c := range chunks {
		b.push(c)
	}
}

// push adds a chunk. It joins short ones, so that what shrinks does not become a chunk a name.
func (b *namesBuilder) push(chunk string) {
	b.list.size += len(chunk)
	if last := len(b.list.chunks) - 1; last >= 0 && len(b.list.chunks[last])+len(chunk) <= chunkSize {
		b.list.chunks[last] += chunk
		return
	}
	b.list.chunks = append(b.list.chunks, chunk)
}

func (b *namesBuilder) close() {
	if b.open.Len() > 0 {
		b.push(b.open.String())
		b.open.Reset()
	}
}

func (b *namesBuilder) done() Names {
	b.close()
	return b.list
}
