package front

import (
	"os"
	"syscall"
)

// fileDescriptors counts the open ones of this process and says how many there may be.
func fileDescriptors() (open int, limit uint64, ok bool) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = dir.Close() }() // it was only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0, false
	}
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, 0, false
	}
	return len(names) - 1, l.Cur, true // not the directory itself
}
