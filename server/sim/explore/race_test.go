//go:build race

package explore

// racing: the race detector has nothing to find here and makes everything ten times slower.
const racing = true
