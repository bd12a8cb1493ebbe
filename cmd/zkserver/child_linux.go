package main

import "syscall"

// childAttr keeps a Ctrl-C from the children, which the ensemble stops itself, and ends them with it should it be killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
