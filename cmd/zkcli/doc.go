// Command zkcli is the command line client of zkserver and of Apache ZooKeeper: one command per call, or a shell.
//
// Its commands, options and texts are those of ZooKeeper's own zkCli, so that scripts can go on as they are; what it adds
// are exit codes by kind of error, a machine-readable output (-o json), data from files, credentials from flags and
// environment, and help. What a command prints goes to standard output, what went wrong to standard error.
//
// To begin reading: run in main.go, then the table in commands.go. Of this project it imports package client and, for elect and lock, client/recipe.
package main
