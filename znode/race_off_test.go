//go:build !race

package znode

const raced = false
