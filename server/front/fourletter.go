package front

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// word writes the answer to one four-letter word. arg are the bytes behind it (stmk).
type word struct {
	answer  func(f *Front, w io.Writer, arg []byte)
	always  bool // answered in the same way while the server does not serve
	argSize int
}

// knownWords are the first four bytes that are a word and not a length.
var knownWords = map[string]*word{
	"ruok": {answer: func(_ *Front, w io.Writer, _ []byte) { put(w, "imok") }, always: true},
	"isro": {answer: (*Front).isro, always: true},
	"envi": {answer: (*Front).envi, always: true},
	"gtmk": {answer: (*Front).gtmk, always: true},
	"stmk": {answer: (*Front).stmk, always: true, argSize: 8},
	"hash": {answer: (*Front).hash, always: true},
	"srvr": {answer: (*Front).srvr},
	"stat": {answer: (*Front).stat},
	"mntr": {answer: (*Front).mntr},
	"conf": {answer: func(f *Front, w io.Writer, _ []byte) { put(w, f.opts.Status.Conf()) }},
	"cons": {answer: (*Front).cons},
	"crst": {answer: (*Front).crst},
	"srst": {answer: (*Front).srst},
	"dirs": {answer: (*Front).dirs},
	"wchs": {answer: (*Front).wchs},
	"wchc": {answer: (*Front).wchc},
	"wchp": {answer: (*Front).wchp},
	"dump": {answer: (*Front).dump},
}

// notServing is the sentence that health checks look for.
const notServing = "This ZooKeeper instance is not currently serving requests"

// fourLetter answers a word and ends the connection. The connection counts as one while it lasts.
func (f *Front) fourLetter(nc net.Conn, name string) {
	so, out := newSocket(nc), &sink{}
	out.init(&so)
	sess := f.hub.Open(zkWire{}, out, ipText(remoteIP(nc)), nc.RemoteAddr().String())
	sess.Received(1)
	err := f.answerWord(nc, name)
	sess.Release()
	if err == nil {
		linger(nc, lingerTime) // a newline or "close" behind the word is swallowed
	}
}

func (f *Front) answerWord(nc net.Conn, name string) error {
	w := knownWords[name]
	out := &strings.Builder{}
	switch {
	case !f.words[name]:
		put(out, name+" is not executed because it is not in the whitelist.\n")
	case !w.always && !f.hub.Serving():
		put(out, notServing+"\n")
	default:
		arg := make([]byte, w.argSize)
		if _, err := io.ReadFull(nc, arg); err != nil {
			return err
		}
		w.answer(f, out, arg)
	}
	_ = nc.SetWriteDeadline(time.Now().Add(f.opts.Handshake))
	_, err := io.WriteString(nc, out.String())
	return err
}

// put writes text; the writers here are memory.
func put(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

func putf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func (f *Front) isro(w io.Writer, _ []byte) {
	if f.hub.Serving() {
		put(w, "rw")
	} else {
		put(w, "null")
	}
}

func (f *Front) gtmk(w io.Writer, _ []byte) { putf(w, "%d", f.traceMask.Load()) }

func (f *Front) stmk(w io.Writer, arg []byte) {
	f.traceMask.Store(int64(binary.BigEndian.Uint64(arg)))
	f.gtmk(w, nil)
}

func (f *Front) envi(w io.Writer, _ []byte) {
	put(w, "Environment:\n")
	putf(w, "zookeeper.version=%s\n", f.opts.Status.Snapshot().Version)
	host, err := os.Hostname()
	if err != nil {
		host = "<NA>"
	}
	putf(w, "host.name=%s\n", host)
	putf(w, "go.version=%s\n", runtime.Version())
	putf(w, "os.name=%s\nos.arch=%s\n", runtime.GOOS, runtime.GOARCH)
	if dir, err := os.Getwd(); err == nil {
		putf(w, "user.dir=%s\n", dir)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	putf(w, "os.memory.heap=%dMB\nos.memory.total=%dMB\n", m.HeapAlloc>>20, m.Sys>>20)
}

func (f *Front) hash(w io.Writer, _ []byte) {
	if !f.hub.Serving() {
		put(w, notServing)
		return
	}
	for _, d := range f.opts.Status.Digests() {
		putf(w, "%x: %d\n", d.Zxid, d.Digest)
	}
}

func (f *Front) srvr(w io.Writer, _ []byte) {
	s := f.opts.Status.Snapshot()
	putf(w, "Zookeeper version: %s\n", s.Version)
	f.server(w, &s)
}

func (f *Front) stat(w io.Writer, _ []byte) {
	s := f.opts.Status.Snapshot()
	putf(w, "Zookeeper version: %s\nClients:\n", s.Version)
	for _, c := range f.connections() {
		putConn(w, &c, true)
	}
	put(w, "\n")
	f.server(w, &s)
}

func (f *Front) server(w io.Writer, s *Snapshot) {
	h := f.hub.Stats()
	putf(w, "Latency min/avg/max: %d/%s/%d\n", h.MinLatency, javaDouble(h.AvgLatency), h.MaxLatency)
	putf(w, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n", h.Received, h.Sent, h.Connections, h.Outstanding)
	putf(w, "Zxid: 0x%x\nMode: %s\nNode count: %d\n", uint64(s.Zxid), s.Mode, s.Nodes)
	if l := s.Leader; l != nil {
		putf(w, "Proposal sizes last/min/max: %d/%d/%d\n", l.LastProposal, l.MinProposal, l.MaxProposal)
	}
}

// javaDouble prints a double as Java does, with up to four decimals and always a point.
func javaDouble(v float64) string {
	s := strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (f *Front) cons(w io.Writer, _ []byte) {
	for _, c := range f.connections() {
		putConn(w, &c, false)
	}
	put(w, "\n")
}

func (f *Front) connections() []session.ConnInfo {
	list := f.hub.Connections()
	slices.SortFunc(list, func(a, b session.ConnInfo) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// putConn writes one connection's line. The number in brackets is Java's interest mask: 1 reads, 0 is the asking one.
func putConn(w io.Writer, c *session.ConnInfo, brief bool) {
	mask := 0
	if c.Session != 0 {
		mask = 1
	}
	s := &c.Stats
	putf(w, " /%s[%d](queued=%d,recved=%d,sent=%d", c.Name, mask, c.Queued, s.Received, s.Sent)
	if !brief && c.Session != 0 {
		putf(w, ",sid=0x%x,lop=%s,est=%d,to=%d", uint64(c.Session), lastOp(s), c.Established, c.Timeout)
		if s.LastCxid >= 0 {
			putf(w, ",lcxid=0x%x", s.LastCxid)
		}
		putf(w, ",lzxid=0x%x,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", uint64(s.LastZxid),
			s.LastResponse/int64(time.Millisecond), s.LastLatency, s.MinLatency, s.AvgLatency(), s.MaxLatency)
	}
	put(w, ")\n")
}

// opNames are Java's names of the last operation.
var opNames = map[znode.Op]string{
	znode.OpPing: "PING", znode.OpMulti: "MULT", znode.OpMultiRead: "MLTR", znode.OpCreate: "CREA", znode.OpCreate2: "CREA",
	znode.OpCreateContainer: "CREA", znode.OpCreateTTL: "CREA", znode.OpDelete: "DELE", znode.OpSetData: "SETD",
	znode.OpReconfig: "RECO", znode.OpSetACL: "SETA", znode.OpCloseSession: "CLOS", znode.OpSync: "SYNC",
	znode.OpExists: "EXIS", znode.OpGetData: "GETD", znode.OpSetWatches: "SETW", znode.OpSetWatches2: "STW2",
	znode.OpAddWatch: "ADDW", znode.OpGetACL: "GETA", znode.OpGetChildren: "GETC", znode.OpGetChildren2: "GETC",
	znode.OpGetAllChildrenNumber: "GACN", znode.OpGetEphemerals: "GETE", znode.OpCheckWatches: "CHKW",
	znode.OpRemoveWatches: "REMW", znode.OpWhoAmI: "HOMI", znode.OpAuth: "AUTH", znode.OpSASL: "SASL",
}

func lastOp(s *session.ConnStats) string {
	if !s.Answered() {
		return "SESS"
	}
	if n, ok := opNames[s.LastOp]; ok {
		return n
	}
	return "NA"
}

func (f *Front) crst(w io.Writer, _ []byte) {
	f.hub.ResetConnStats()
	put(w, "Connection stats reset.\n")
}

func (f *Front) srst(w io.Writer, _ []byte) {
	f.hub.ResetStats()
	put(w, "Server stats reset.\n")
}

func (f *Front) dirs(w io.Writer, _ []byte) {
	data, log := f.opts.Status.DirSizes()
	putf(w, "datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (f *Front) wchs(w io.Writer, _ []byte) {
	s := f.hub.Watches()
	putf(w, "%d connections watching %d paths\nTotal watches:%d\n\n", s.Connections, s.Paths, s.Watches)
}

// wchp lists the sessions that watch each path, wchc the paths that each session watches.
func (f *Front) wchp(w io.Writer, _ []byte) {
	put(w, listing(f.hub.WatchList(), func(v session.Watch) (string, string) { return v.Path, sessionText(v.Session) }))
}

func (f *Front) wchc(w io.Writer, _ []byte) {
	put(w, listing(f.hub.WatchList(), func(v session.Watch) (string, string) { return sessionText(v.Session), v.Path }))
}

func sessionText(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// listing groups watches under a head, sorted; an empty line ends it.
func listing(watches []session.Watch, split func(session.Watch) (head, item string)) string {
	groups := map[string][]string{}
	for _, v := range watches {
		head, item := split(v)
		groups[head] = append(groups[head], item)
	}
	out := &strings.Builder{}
	for _, head := range slices.Sorted(maps.Keys(groups)) {
		putf(out, "%s\n", head)
		items := groups[head]
		slices.Sort(items)
		for _, item := range slices.Compact(items) { // data and child watch of one path
			putf(out, "\t%s\n", item)
		}
	}
	put(out, "\n")
	return out.String()
}
