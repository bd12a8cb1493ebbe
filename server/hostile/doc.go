// Package hostile runs whole ensembles of real server processes on a machine that does them harm (kills, pauses, networks
// that cut and delay, disks that are full, fail or are slow, memory that is short) under real clients on both wires, and
// checks what the clients were told (server/hostile/history). One seed draws the order of the faults; what the machine
// makes of it is not repeated. It imports the server, for processes with a disk that can be made to fail, and the client.
// Only tests and server/hostile/run use it. To begin reading: storm.go. It needs Linux, but for network.go.
package hostile
