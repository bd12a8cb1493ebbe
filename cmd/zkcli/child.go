package main

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkserver/zkserver/client/recipe"
)

// child is a command with a group of processes of its own: what it starts is in it too, so that all of it can be ended.
// Where zkcli has the terminal, the group gets it, and with it the signals of keys.
type child struct {
	pid      int
	terminal bool                    // it was given to the command
	changes  chan syscall.WaitStatus // stops, then the end
}

// leftCheck is how often a group is looked at whose first process has ended.
const leftCheck = 20 * time.Millisecond

// start begins the command. Its environment has the fencing token and the node.
func (h *holding) start(hold *recipe.Hold) (*child, error) {
	c := &child{changes: make(chan syscall.WaitStatus, 1)}
	attr := &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		c.terminal, attr.Foreground = true, true
	}
	diesWithUs(attr)
	runtime.LockOSThread() // until leave: the command dies with the thread that has started it
	p, err := os.StartProcess(h.exe, h.argv, &os.ProcAttr{
		Env: append(os.Environ(), "ZKCLI_TOKEN="+strconv.FormatInt(hold.Token(), 10), "ZKCLI_NODE="+hold.Path()),
		Sys: attr, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		runtime.UnlockOSThread()
		return nil, statusError{exitNotRunnable, err.Error()}
	}
	c.pid = p.Pid
	_ = p.Release() // it is waited for below, where stops are seen too
	go c.wait()     // ends with the command
	return c, nil
}

func (c *child) wait() {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		c.changes <- ws
		if err != nil || !ws.Stopped() {
			return
		}
	}
}

// signal goes to the whole group, as a key's does.
func (c *child) signal(sig os.Signal) {
	s, _ := sig.(syscall.Signal)
	_ = syscall.Kill(-c.pid, s) // it may have ended
}

// suspend follows the command that was stopped by a key (Ctrl-Z), so that the shell that has started zkcli notices. When zkcli
// goes on, so does the command, if it may. Where there is no such shell nobody would let it go on: then nothing stops.
func (c *child) suspend(may func() bool) {
	if !c.terminal {
		return
	}
	c.foreground(c.pid, unix.Getpgrp())
	if shell, err := unix.Getsid(os.Getppid()); err == nil && shell == sid() {
		resumed := make(chan os.Signal, 1)
		signal.Notify(resumed, syscall.SIGCONT)
		_ = syscall.Kill(0, syscall.SIGSTOP)
		<-resumed // the stop itself may come some time after the call
		signal.Stop(resumed)
	}
	c.foreground(unix.Getpgrp(), c.pid)
	if may() { // else it is told of the loss, and then goes on
		c.signal(syscall.SIGCONT)
	}
}

// sid is this process's session of the terminal.
func sid() int {
	n, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return n
}

// foreground gives the terminal from one group to another, if that has it.
func (c *child) foreground(from, to int) {
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == from {
		signal.Ignore(syscall.SIGTTOU) // what stops those who touch the terminal from the background
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, to)
		signal.Reset(syscall.SIGTTOU)
	}
}

// drain waits until nothing of the group is left, and kills it when its time is over.
func (c *child) drain(over <-chan time.Time) {
	t := time.NewTicker(leftCheck)
	defer t.Stop()
	for syscall.Kill(-c.pid, 0) == nil {
		select {
		case <-t.C:
		case <-over:
			c.signal(syscall.SIGKILL)
			return
		}
	}
}

// leave takes the terminal back.
func (c *child) leave() {
	if c.terminal {
		c.foreground(c.pid, unix.Getpgrp())
	}
	runtime.UnlockOSThread()
}
