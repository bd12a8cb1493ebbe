package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
)

// namesEnv makes a test's server find names in a file, a name and its address a line, as others find them in the DNS.
const namesEnv = "ZKSERVER_TEST_NAMES"

// resolveBy replaces the process's resolver. The file is read anew for each question.
func resolveBy(file string) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerNames(server, file) // ends with the connection
		return client, nil
	}}
}

// answerNames is a name server for one connection.
func answerNames(c net.Conn, file string) {
	defer c.Close()
	for {
		var n [2]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(n[:]))
		if _, err := io.ReadFull(c, q); err != nil || len(q) < 12 {
			return
		}
		var labels []string
		at := 12
		for at < len(q) && q[at] != 0 {
			end := at + 1 + int(q[at])
			labels = append(labels, string(q[at+1:end]))
			at = end
		}
		at++ // the root
		a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:at+4]...)
		switch ip := lookup(file, strings.Join(labels, ".")); {
		case ip == nil:
			a[3] |= 3 // no such name
		case binary.BigEndian.Uint16(q[at:]) == 1:
			a[7] = 1
			a = append(append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), ip...)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
			return
		}
	}
}

func lookup(file, name string) net.IP {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return net.ParseIP(f[1]).To4()
		}
	}
	return nil
}
