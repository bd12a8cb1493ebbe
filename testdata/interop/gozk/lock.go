package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// locks counts in a file under go-zookeeper's Lock: see ../README.md.
func locks(hosts, path, file string, seconds time.Duration) {
	c, _ := connect(hosts)
	turns := 0
	for end := time.Now().Add(seconds); time.Now().Before(end); turns++ {
		l := zk.NewLock(c, path, zk.WorldACL(zk.PermAll))
		err := l.Lock()
		check(err == nil, "lock: %v", err)
		count(file)
		err = l.Unlock()
		check(err == nil, "unlock: %v", err)
	}
	c.Close()
	_, _ = os.Stdout.WriteString(strconv.Itoa(turns) + "\n")
}

// count writes in place, ten digits: who reads at the same time sees a number, too.
func count(file string) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	check(err == nil, "open: %v", err)
	defer f.Close()
	var text [10]byte
	_, err = f.ReadAt(text[:], 0)
	check(err == nil, "read: %v", err)
	n, err := strconv.Atoi(string(text[:]))
	check(err == nil, "%q: %v", text, err)
	time.Sleep(time.Millisecond) // who does not wait for the lock comes in between
	_, err = f.WriteAt(fmt.Appendf(nil, "%010d", n+1), 0)
	check(err == nil, "write: %v", err)
}
