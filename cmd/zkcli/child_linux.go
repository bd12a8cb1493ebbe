package main

import "syscall"

// diesWithUs ends a command when zkcli is killed: nobody would tell it of the loss.
func diesWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
