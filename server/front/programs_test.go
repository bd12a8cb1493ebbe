package front

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
)

// What real programs lean on beyond single answers: each test is what one program does, with what it takes for granted.

// multi sends a multi and gives its results with the zxid of the reply.
func (c *client) multi(ops ...jute.Op) ([]jute.OpResult, int64) {
	c.t.Helper()
	r := c.call(jute.OpMulti, &jute.MultiRequest{Ops: ops})
	var m jute.MultiResponse
	d := jute.NewDecoder(r.body)
	m.Decode(d)
	if d.Err() != nil || len(m.Results) != len(ops) {
		c.t.Fatalf("%d results of %d operations: %v", len(m.Results), len(ops), d.Err())
	}
	return m.Results, r.Zxid
}

// failed checks that the operation at index at failed with code, those before it with OK, those behind it with
// RUNTIMEINCONSISTENCY.
func failed(t *testing.T, results []jute.OpResult, at int, code jute.ErrorCode) {
	t.Helper()
	for i, r := range results {
		want := jute.ErrorCode(0)
		if i == at {
			want = code
		} else if i > at {
			want = jute.RuntimeInconsistency
		}
		if r.Type != jute.OpError || r.Err != want {
			t.Errorf("result %d: type %d err %v, want an error with %v", i, r.Type, r.Err, want)
		}
	}
}

func (c *client) stat(path string) jute.GetDataResponse {
	c.t.Helper()
	var g jute.GetDataResponse
	g.Decode(jute.NewDecoder(c.call(jute.OpGetData, get(path, false)).body))
	return g
}

// createAll makes persistent nodes.
func (c *client) createAll(paths ...string) {
	c.t.Helper()
	for _, p := range paths {
		c.call(jute.OpCreate, create(p, "", 0))
	}
}

// A Kafka broker registers with a multi of an ephemeral without data and a setData of version 0, and takes the czxid in
// the *result* of the second for its broker epoch, by which a controller tells its incarnations apart.
func TestKafkaBrokerEpoch(t *testing.T) {
	c := start(t, nil).session()
	c.createAll("/ids")
	var last int64
	for range 3 {
		results, zxid := c.multi(
			jute.Op{Type: jute.OpCreate, Path: jute.Str("/ids/1"), ACL: openACL, Flags: 1},
			jute.Op{Type: jute.OpSetData, Path: jute.Str("/ids/1"), Data: []byte("host")},
		)
		st := results[1].Stat
		if st.Czxid != zxid || st.Mzxid != zxid || st.Version != 1 || st.EphemeralOwner != c.sid || st.Czxid <= last {
			t.Fatalf("%+v in the multi %#x of session %#x, after %#x", st, zxid, c.sid, last)
		}
		if g := c.stat("/ids/1"); g.Stat != st || string(g.Data) != "host" {
			t.Errorf("read %+v, written %+v", g.Stat, st)
		}
		last = zxid
		c.call(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str("/ids/1"), Version: -1})
	}
}

// Kafka's controllers: a multi elects one, by the ephemeral and by the version of the epoch; every write of a controller
// checks that version, and the results of a failed one say which operation refused.
func TestKafkaControllers(t *testing.T) {
	s := start(t, nil)
	one, two := s.session(), s.session()
	one.createAll("/controller_epoch", "/state")
	elect := func(version int32) []jute.Op {
		return []jute.Op{
			{Type: jute.OpCreate, Path: jute.Str("/controller"), Data: []byte("1"), ACL: openACL, Flags: 1},
			{Type: jute.OpSetData, Path: jute.Str("/controller_epoch"), Data: []byte("e"), Version: version},
		}
	}
	write := func(epoch int32) []jute.Op {
		return []jute.Op{
			{Type: jute.OpCheck, Path: jute.Str("/controller_epoch"), Version: epoch},
			{Type: jute.OpSetData, Path: jute.Str("/state"), Version: -1},
			{Type: jute.OpDelete, Path: jute.Str("/state"), Version: 99},
		}
	}
	results, _ := one.multi(elect(0)...)
	if v := results[1].Stat.Version; v != 1 {
		t.Fatalf("epoch node has version %d", v)
	}
	results, _ = two.multi(elect(1)...)
	failed(t, results, 0, jute.NodeExists)
	one.call(jute.OpCloseSession, nil)
	results, _ = two.multi(elect(0)...)
	failed(t, results, 1, jute.BadVersion)
	if _, zxid := two.multi(elect(1)...); two.stat("/controller").Stat.Czxid != zxid {
		t.Error("the second controller's node is not of its election")
	}
	results, _ = two.multi(write(1)...)
	failed(t, results, 0, jute.BadVersion)
	results, _ = two.multi(write(2)...)
	failed(t, results, 2, jute.BadVersion)
	if v := two.stat("/state").Stat.Version; v != 0 {
		t.Errorf("refused multis left version %d", v)
	}
	if results, _ = two.multi(write(2)[:2]...); results[1].Stat.Version != 1 {
		t.Errorf("%+v", results)
	}
}

// Kafka takes generated broker ids from the version that a blind setData returns.
func TestKafkaGeneratedIDs(t *testing.T) {
	c := start(t, nil).session()
	c.createAll("/seqid")
	for want := int32(1); want <= 5; want++ {
		var st jute.SetDataResponse
		st.Decode(jute.NewDecoder(c.call(jute.OpSetData, set("/seqid", "")).body))
		if st.Stat.Version != want {
			t.Fatalf("version %d, want %d", st.Stat.Version, want)
		}
	}
}

// Solr keeps states of replicas in the names of children, and takes the parent's cversion for the version of them all:
// each creation and each deletion counts once, also in a multi, and nothing else does.
func TestSolrReplicaStates(t *testing.T) {
	c := start(t, nil).session()
	c.createAll("/prs")
	child := func(op jute.OpCode, name string) jute.Op {
		return jute.Op{Type: op, Path: jute.Str("/prs/" + name), ACL: openACL, Version: -1}
	}
	changes := int32(0)
	expect := func(n int32) {
		t.Helper()
		changes += n
		if st := c.stat("/prs").Stat; st.Cversion != changes || st.Version != 0 {
			t.Fatalf("cversion %d version %d, want %d and 0", st.Cversion, st.Version, changes)
		}
	}
	c.multi(child(jute.OpCreate, "r1:1:D"), child(jute.OpCreate, "r2:1:D"))
	expect(2)
	for i := range 10 {
		old, next := fmt.Sprintf("r1:%d:D", i+1), fmt.Sprintf("r1:%d:D", i+2)
		c.multi(child(jute.OpDelete, old), child(jute.OpCreate, next))
		expect(2)
	}
	results, _ := c.multi(child(jute.OpDelete, "r2:1:D"), child(jute.OpDelete, "r1:1:D"))
	failed(t, results, 1, jute.NoNode)
	expect(0)
	c.multi(child(jute.OpSetData, "r2:1:D"))
	expect(0)
}

// Solr's status page sends words with a line end, and splits what it reads by tab or by '='.
func TestSolrStatusPage(t *testing.T) {
	s := start(t, nil)
	for _, end := range []string{"\n", "\r\n"} {
		if got := s.word("ruok" + end); got != "imok" {
			t.Errorf("ruok%q: %q", end, got)
		}
		keys := map[string]string{}
		for line := range strings.Lines(s.word("mntr" + end)) {
			key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !ok || key == "" || value == "" {
				t.Errorf("line %q", line)
			}
			keys[key] = value
		}
		for _, key := range []string{"zk_followers", "zk_synced_followers"} {
			if n, err := strconv.ParseFloat(keys[key], 64); err != nil || n != 2 {
				t.Errorf("%s is %q", key, keys[key])
			}
		}
		for line := range strings.Lines(s.word("conf" + end)) {
			if !strings.Contains(line, "=") && !strings.HasPrefix(line, "membership:") {
				t.Errorf("line %q", line)
			}
		}
	}
}

// ClickHouse asks for /keeper nodes first, and speaks a language of its own to a server that has them; it numbers blocks
// with ephemeral sequential nodes, made below a lock that a multi checks, and reads ten digits behind the prefix.
func TestClickHouseBlocks(t *testing.T) {
	c := start(t, nil).session()
	for _, p := range []string{"/keeper", "/keeper/api_version", "/keeper/feature_flags"} {
		c.want(c.req(jute.OpGetData, get(p, false)), jute.NoNode)
	}
	c.createAll("/t", "/t/lock", "/t/blocks")
	lock := jute.Op{Type: jute.OpCheck, Path: jute.Str("/t/lock"), Version: -1}
	block := jute.Op{Type: jute.OpCreate, Path: jute.Str("/t/blocks/block-"), ACL: openACL, Flags: 3}
	for n := range 12 {
		results, _ := c.multi(lock, block)
		want := fmt.Sprintf("/t/blocks/block-%010d", n)
		if got := results[1].Path.Value; got != want {
			t.Fatalf("block %q, want %q", got, want)
		}
		c.multi(lock, jute.Op{Type: jute.OpDelete, Path: jute.Str(want), Version: -1})
	}
	ops := slices.Repeat([]jute.Op{lock, block}, 500)
	results, _ := c.multi(append(ops, jute.Op{Type: jute.OpCheck, Path: jute.Str("/t/lock"), Version: 7})...)
	failed(t, results, len(ops), jute.BadVersion)
	results, _ = c.multi(ops...)
	if got := results[len(ops)-1].Path.Value; got != "/t/blocks/block-0000000511" {
		t.Errorf("the last of 500 blocks is %q", got)
	}
}

// HBase sends multis of nearly jute.maxbuffer, and repeats a write whose answer it did not get: the second delete finds
// no node, the second setData a later version and its own data.
func TestHBaseRetries(t *testing.T) {
	c := start(t, nil).session()
	var ops []jute.Op
	for i := range 16 {
		ops = append(ops, jute.Op{Type: jute.OpCreate, Path: jute.Str(fmt.Sprintf("/r%d", i)), Data: make([]byte, 65000), ACL: openACL})
	}
	c.multi(ops...)
	write := &jute.SetDataRequest{Path: jute.Str("/r1"), Data: []byte("id of the writer"), Version: 0}
	c.call(jute.OpSetData, write)
	c.want(c.req(jute.OpSetData, write), jute.BadVersion)
	if g := c.stat("/r1"); string(g.Data) != "id of the writer" || g.Stat.Version != 1 {
		t.Errorf("%q, version %d", g.Data, g.Stat.Version)
	}
	remove := &jute.DeleteRequest{Path: jute.Str("/r2"), Version: 0}
	c.call(jute.OpDelete, remove)
	c.want(c.req(jute.OpDelete, remove), jute.NoNode)
	c.want(c.req(jute.OpCreate, create("/r1", "", 0)), jute.NodeExists)
}
