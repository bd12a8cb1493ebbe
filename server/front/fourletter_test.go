package front

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

func (s *server) word(w string) string {
	s.t.Helper()
	c := s.dial()
	c.raw([]byte(w))
	return string(c.rest())
}

func TestFourLetterWords(t *testing.T) {
	s := start(t, func(o *Options) { o.Whitelist = []string{"*"} })
	c := s.session()
	c.call(jute.OpCreate, create("/a", "x", 0))
	c.call(jute.OpGetData, get("/a", true))
	c.call(jute.OpGetChildren, get("/a", true))

	exact := map[string]string{
		"ruok": "imok", "ruok\n": "imok", "isro": "rw", "gtmk": "306", "conf": "clientPort=2181\nserverId=1",
		"dirs": "datadir_size: 12\nlogdir_size: 34\n", "hash": "80: 99\n",
		"wchs": "1 connections watching 1 paths\nTotal watches:2\n\n",
		"abcd": "",
	}
	for w, want := range exact {
		if got := s.word(w); got != want {
			t.Errorf("%q answered %q, want %q", w, got, want)
		}
	}
	sid := sessionText(c.sid)
	if got, want := s.word("wchp"), "/a\n\t"+sid+"\n\n"; got != want {
		t.Errorf("wchp answered %q, want %q", got, want)
	}
	if got, want := s.word("wchc"), sid+"\n\t/a\n\n"; got != want {
		t.Errorf("wchc answered %q, want %q", got, want)
	}
	pattern := map[string]string{
		"srvr": `^Zookeeper version: 3\.9\.5-\w+, built on 2026-02-11 20:18 UTC
Latency min/avg/max: \d+/\d+\.\d+/\d+
Received: \d+
Sent: \d+
Connections: [23]
Outstanding: 0
Zxid: 0x2
Mode: leader
Node count: 5
Proposal sizes last/min/max: 62/48/94
$`,
		"stat": `^Zookeeper version: .*
Clients:
( /127\.0\.0\.1:\d+\[[01]\]\(queued=0,recved=\d+,sent=\d+\)
){2,3}
Latency min/avg/max: (.|\n)*
Mode: leader
`,
		"cons": `^( /127\.0\.0\.1:\d+\[0\]\(queued=0,recved=1,sent=0\)
)? /127\.0\.0\.1:\d+\[1\]\(queued=0,recved=4,sent=4,sid=0x[0-9a-f]+,lop=GETC,est=\d+,to=10000,lcxid=0x3,lzxid=0x2,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)
( /127\.0\.0\.1:\d+\[0\]\(queued=0,recved=1,sent=0\)
)?
$`,
		"envi": `^Environment:
zookeeper\.version=3\.9\.5.*
host\.name=.+
`,
	}
	for w, want := range pattern {
		if got := s.word(w); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s answered\n%s", w, got)
		}
	}
	for _, want := range []string{
		"SessionTracker dump:\nSession Sets (2)/(3):\n1 expire at Mon Nov 30 06:14:56 UTC 2026:\n\t0x11\n" +
			"2 expire at Mon Nov 30 06:14:58 UTC 2026:\n\t0x12\n\t0x13\nephemeral nodes dump:\n",
		"Sessions with Ephemerals (1):\n0x12:\n\t/app/lock\n\t/app/z\nConnections dump:\nConnections Sets (",
		" sessionId: " + sid + "\n", " sessionId: 0x0\n",
	} {
		if got := s.word("dump"); !strings.Contains(got, want) {
			t.Errorf("dump answered\n%s\nwithout\n%s", got, want)
		}
	}
	if set, read := s.word("stmk\x00\x00\x00\x00\x00\x00\x00\x07"), s.word("gtmk"); set != "7" || read != "7" {
		t.Errorf("stmk answered %q, then gtmk %q", set, read)
	}
	if got := s.word("crst"); got != "Connection stats reset.\n" {
		t.Error(got)
	}
	if got := s.word("srst"); got != "Server stats reset.\n" {
		t.Error(got)
	}
	if st := s.hub.Stats(); st.Sent != 0 || st.MaxLatency != 0 {
		t.Errorf("after srst %+v", st)
	}
}

func TestMntr(t *testing.T) {
	s := start(t, nil)
	s.session().call(jute.OpCreate, create("/a", "x", 0))
	out := s.word("mntr")
	// Telegraf gives up on the whole answer at the first line that does not match.
	re := regexp.MustCompile(`^zk_(\w+)\s+([\w.\-]+)`)
	keys := map[string]string{}
	for line := range strings.Lines(out) {
		m := re.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		if _, twice := keys[m[1]]; twice {
			t.Errorf("%s twice", m[1])
		}
		keys[m[1]] = m[2]
	}
	for key, want := range map[string]string{
		"server_state": "leader", "znode_count": "5", "followers": "2", "learners": "2",
		"quorum_size": "3", "watch_count": "0", "max_proposal_size": "94", "local_sessions": "0", "fsync_threshold_exceed_count": "0",
	} {
		if keys[key] != want {
			t.Errorf("zk_%s is %q, want %q", key, keys[key], want)
		}
	}
	for _, key := range strings.Fields("version peer_state uptime min_latency avg_latency max_latency packets_received packets_sent outstanding_requests ephemerals_count approximate_data_size global_sessions last_client_response_size auth_failed_count connection_rejected leader_uptime pending_syncs") {
		if keys[key] == "" {
			t.Errorf("zk_%s is missing", key)
		}
	}
	if !strings.HasPrefix(out, "zk_version\t3.9.5-") {
		t.Error("does not begin with the version")
	}
}

func TestWhitelist(t *testing.T) {
	s := start(t, nil)
	if got := s.word("cons"); got != "cons is not executed because it is not in the whitelist.\n" {
		t.Errorf("cons answered %q", got)
	}
	if got := s.word("ruok"); got != "imok" {
		t.Errorf("ruok answered %q", got)
	}
	s = start(t, func(o *Options) { o.Whitelist = []string{"mntr", "nosuch"} })
	if got := s.word("ruok"); got != "ruok is not executed because it is not in the whitelist.\n" {
		t.Errorf("ruok answered %q", got)
	}
	if got := s.word("srvr"); !strings.Contains(got, "Mode: ") {
		t.Errorf("srvr answered %q", got)
	}
}

func TestWordsWhileNotServing(t *testing.T) {
	s := start(t, func(o *Options) { o.Whitelist = []string{"*"} })
	s.b.SetLease(-time.Second)
	for w, want := range map[string]string{
		"ruok": "imok", "isro": "null", "gtmk": "306", "hash": notServing, "srvr": notServing + "\n", "stat": notServing + "\n",
		"mntr": notServing + "\n", "conf": notServing + "\n", "cons": notServing + "\n", "dirs": notServing + "\n",
	} {
		if got := s.word(w); got != want {
			t.Errorf("%s answered %q, want %q", w, got, want)
		}
	}
	if got := s.word("envi"); !strings.HasPrefix(got, "Environment:\n") {
		t.Errorf("envi answered %q", got)
	}
}

// A word that arrives in pieces, and the other protocols that are told apart.
func TestSniffing(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	c.raw([]byte("ru"))
	c.silent()
	c.raw([]byte("ok"))
	if got := string(c.rest()); got != "imok" {
		t.Errorf("split word answered %q", got)
	}
	for _, method := range []string{"GET / HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n\r\n", "PUT / HTTP/1.1\r\n\r\n"} {
		got := s.word(method)
		if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") || !strings.Contains(got, s.addr) {
			t.Errorf("%q answered %q", method, got)
		}
	}
	if got := s.word("\x16\x03\x01\x02\x00\x01\x00"); got != "" {
		t.Errorf("TLS answered %x", got)
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if got := s.word(preface); got != "" {
		t.Errorf("gRPC that is not served answered %x", got)
	}
}

func TestGRPCListener(t *testing.T) {
	var l net.Listener
	s := start(t, func(*Options) {})
	l = s.f.GRPCListener()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	c := s.dial()
	c.raw([]byte(preface))
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(bufio.NewReader(nc), got); err != nil || string(got) != preface {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := nc.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Close(); err != nil {
		t.Fatal(err)
	}
	if got := string(c.rest()); got != "hello" {
		t.Fatalf("read %q", got)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.total != 0 || len(s.f.perIP) != 0 {
		t.Fatalf("%d connections counted", s.f.total)
	}
}

func TestIPText(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "::1": "0:0:0:0:0:0:0:1", "2001:db8::a00:1": "2001:db8:0:0:0:0:a00:1",
	} {
		if got := ipText(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}
