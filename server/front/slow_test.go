package front

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// Who reads no answers is not read from, whatever it sends: here who it is.
func TestAuthWithoutReading(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	one := frameOf(request(-4, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("a:b")}))
	batch := bytes.Repeat(one, 4096)
	rest, before := batch, int64(-1)
	for sent := 0; sent < 40<<20; { // more than what the kernel keeps
		_ = c.c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := c.c.Write(rest)
		sent += n
		if rest = rest[n:]; len(rest) == 0 {
			rest = batch
		}
		switch received := s.hub.Stats().Received; {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatal(err)
		case received == before:
			return // nothing was read for so long
		default:
			before = received
		}
	}
	t.Error("40 MiB of auth packets were read from a client that reads nothing")
}
