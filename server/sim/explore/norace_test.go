//go:build !race

package explore

const racing = false
