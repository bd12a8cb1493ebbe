package main

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/internal/testport"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// startServer runs a server of one in this process, in memory: its address, and what stops it. Lines are added to its
// configuration.
func startServer(t *testing.T, lines ...string) (addr string, stop func() error) {
	t.Helper()
	port, dir := testport.Reserve(t, 1)[0], t.TempDir()
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	hash := sha1.Sum([]byte("super:test"))
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nextendedTypesEnabled=true\n"+
		"enforceQuota=true\nauthProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"+
		"authProvider.2=org.apache.zookeeper.server.auth.X509AuthenticationProvider\nDigestAuthenticationProvider.superDigest=super:%s\n", filepath.Join(dir, "data"), port, base64.StdEncoding.EncodeToString(hash[:]))
	text += strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(c, server.Options{Log: zerolog.Nop(), FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := client.Dial(ctx, addr, client.Options{})
	if err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	_ = first.Close() // on a loaded machine the answer may come later than it waits
	return addr, s.Close
}
