package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// serve is a process of the ensemble.
func serve(ctx context.Context, file string) error {
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		return err
	}
	s, err := server.New(c, server.Options{Log: zerolog.New(os.Stderr).With().Timestamp().Logger(), Version: "kafkapattern"})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

const servers = 3

// configure writes the configurations of three servers below dir, and returns their files and their addresses for clients.
func configure(dir string) (files, addrs []string, err error) {
	ports, err := freePorts(3 * servers)
	if err != nil {
		return nil, nil, err
	}
	var lines strings.Builder
	for i := range servers {
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[3*i+1], ports[3*i+2])
	}
	for i := range servers {
		data := filepath.Join(dir, fmt.Sprint(i+1))
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, nil, err
		}
		text := fmt.Sprintf("tickTime=200\ninitLimit=50\nsyncLimit=25\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n%s", data, ports[3*i], lines.String())
		file := filepath.Join(data, "zoo.cfg")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
			return nil, nil, err
		}
		files = append(files, file)
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", ports[3*i]))
	}
	return files, addrs, nil
}

// freePorts are ports that nobody listens on, nor has for a connection of its own.
func freePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// leads reports whether a server leads the ensemble.
func leads(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return false
	}
	text := make([]byte, 4096)
	n, at := 0, 0
	for err == nil {
		n, err = conn.Read(text[at:])
		at += n
	}
	return strings.Contains(string(text[:at]), "Mode: leader")
}
