package main

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// startServer runs a server of one in this process, in memory: its address, and what stops it.
func startServer(dir string) (addr string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	hash := sha1.Sum([]byte("super:test"))
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nextendedTypesEnabled=true\n"+
		"enforceQuota=true\nDigestAuthenticationProvider.superDigest=super:%s\n", filepath.Join(dir, "data"), port, base64.StdEncoding.EncodeToString(hash[:]))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		return "", nil, err
	}
	s, err := server.New(c, server.Options{Log: zerolog.Nop(), FS: vfs.NewMem()})
	if err != nil {
		return "", nil, err
	}
	s.Start()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := client.Dial(ctx, addr, client.Options{})
	if err != nil {
		return "", nil, errors.Join(err, s.Close())
	}
	return addr, s.Close, first.Close()
}
