package znode

import "testing"

// What counts as blank is what Apache ZooKeeper answered: String.trim of Java, not Unicode's white space.
func TestEphemeralsOfABlankPrefix(t *testing.T) {
	tree := NewTree(Options{})
	tree.ephemerals[7] = map[string]struct{}{"/e": {}}
	for prefix, all := range map[string]bool{
		"": true, " ": true, "\x00": true, "\x1f\x01": true, "/": true, "\t/ ": true, "\x00/": true,
		"\u00a0": false, "\u2003": false, "\u3000": false, "\x7f": false, "//": false,
	} {
		if got := tree.Ephemerals(7, prefix, false); (got.Len() == 1) != all {
			t.Errorf("prefix %q: %q", prefix, got.chunks)
		}
	}
}
