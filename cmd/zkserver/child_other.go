//go:build !linux

package main

import "syscall"

// childAttr keeps a Ctrl-C from the children, which the ensemble stops itself. If it is killed, they stay.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
