package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/client/recipe"
)

// locks counts in a file under our Mutex, RWMutex or Election: see ../README.md.
func locks(wire, mode, hosts, path, file string, seconds time.Duration) {
	c := dial(wire, hosts)
	o := recipe.Options{ID: "ours-" + wire}
	acquire := recipe.NewMutex(c, path, o).Lock
	switch mode {
	case "write":
		acquire = recipe.NewRWMutex(c, path, o).Lock
	case "latch":
		acquire = recipe.NewElection(c, path, o).Campaign
	}
	turns := 0
	for end := time.Now().Add(seconds); time.Now().Before(end); turns++ {
		h, err := acquire(ctx)
		check(err == nil, "lock: %v", err)
		count(file)
		check(h.Context().Err() == nil, "the hold has ended: %v", h.Context().Err())
		check(h.Release(ctx) == nil, "release")
	}
	check(c.Close() == nil, "close")
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

// hold has the lock until somebody asks for it.
func hold(wire, hosts, path string) {
	c := dial(wire, hosts)
	h, err := recipe.NewMutex(c, path, recipe.Options{}).Lock(ctx)
	check(err == nil, "lock: %v", err)
	_, _ = os.Stdout.WriteString("held\n")
	<-h.Revoked()
	check(h.Context().Err() == nil && h.Release(ctx) == nil && c.Close() == nil, "release")
	_, _ = os.Stdout.WriteString("revoked\n")
}

// revoke asks whoever holds the lock for it.
func revoke(wire, hosts, path string) {
	c := dial(wire, hosts)
	all, err := recipe.NewMutex(c, path, recipe.Options{}).Participants(ctx)
	check(err == nil && len(all) > 0, "participants: %v", err)
	err = recipe.Revoke(ctx, c, all[0].Path)
	check(err == nil && c.Close() == nil, "revoke: %v", err)
}
