//go:build !race

package front

const raced = false
