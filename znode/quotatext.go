package znode

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// track is the text of a quota's limits or stats: keys with numbers (semantics 11). A number that is not given is -1.
type track struct {
	count, bytes         int64
	hardCount, hardBytes int64
	rest                 string // every key but count and bytes, as the text ends with them
	bad                  bool   // the text cannot be read
}

// maxTrackText bounds what is read, in bytes: longer texts count as unreadable. Every write below a quota writes its
// stats anew.
const maxTrackText = 1 << 10

const (
	keyCount     = "count"
	keyBytes     = "bytes"
	keyHardCount = "countHardLimit"
	keyHardBytes = "byteHardLimit"
)

// parseTrack reads a text as ZooKeeper does: pieces between commas and semicolons, of each the first two parts around
// equals signs. Null is unreadable, the empty text is not.
func parseTrack(data []byte) track {
	bad := track{count: -1, bytes: -1, hardCount: -1, hardBytes: -1, bad: true}
	if data == nil || len(data) > maxTrackText {
		return bad
	}
	keys := map[string]int64{}
	text := string(data)
	if text != "" && strings.Trim(text, ",;") == "" {
		return track{count: -1, bytes: -1, hardCount: -1, hardBytes: -1} // separators alone are no piece
	}
	for i, piece := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		if i == 0 && (text[0] == ',' || text[0] == ';') {
			return bad // an empty first piece
		}
		parts := strings.Split(strings.TrimRight(piece, "="), "=")
		if len(parts) < 2 {
			return bad
		}
		n := int64(-1)
		if parts[1] != "" {
			var err error
			if n, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
				return bad
			}
		}
		keys[parts[0]] = n
	}
	number := func(key string) int64 {
		if n, ok := keys[key]; ok {
			return n
		}
		return -1
	}
	t := track{count: number(keyCount), bytes: number(keyBytes), hardCount: number(keyHardCount), hardBytes: number(keyHardBytes)}
	delete(keys, keyCount)
	delete(keys, keyBytes)
	t.rest = formatKeys(keys)
	return t
}

// formatKeys writes keys as they follow count and bytes: after an equals sign that old parsers need.
func formatKeys(keys map[string]int64) string {
	if len(keys) == 0 {
		return ""
	}
	b := []byte("=")
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		b = append(append(append(b, ';'), k...), '=')
		b = strconv.AppendInt(b, keys[k], 10)
	}
	return string(b)
}

// text is what the server writes.
func (t *track) text() []byte {
	b := make([]byte, 0, len("count=,bytes=")+24+len(t.rest))
	b = strconv.AppendInt(append(b, "count="...), t.count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), t.bytes, 10)
	return append(b, t.rest...)
}
