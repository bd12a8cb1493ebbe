package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write puts a zoo.cfg and a myid into a fresh directory; D in the text stands for that directory.
func write(t *testing.T, text, myid string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "D/", dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	if myid != "" {
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(myid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestProperties(t *testing.T) {
	got := parseProperties("# c\n! c\n\na=1\n b : 2 \nc 3\nd\\ e=f\\\n   g\nh=\\u0041\\tx\ni\r\nj=x=y\n")
	want := []property{{4, "a", "1"}, {5, "b", "2"}, {6, "c", "3"}, {7, "d e", "fg"}, {9, "h", "A\tx"}, {10, "i", ""}, {11, "j", "x=y"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(property{})); d != "" {
		t.Fatal(d)
	}
}

func TestStandalone(t *testing.T) {
	c, err := Load(write(t, "tickTime=1000\ndataDir=D/\nclientPort=2181\n", ""), Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Standalone || c.ServerID != 1 || c.ClientAddr != ":2181" || c.DataLogDir != c.DataDir {
		t.Fatalf("%+v", c)
	}
	if c.MinSessionTimeout != 2*time.Second || c.MaxSessionTimeout != 20*time.Second || c.MaxBuffer != 1048575 {
		t.Fatalf("%+v", c)
	}
}

func TestEnsemble(t *testing.T) {
	c, err := Load(write(t, `tickTime=1000
initLimit=10
syncLimit=5
dataDir=D/
clientPort=2181
server.3=[::1]:2888:3888:observer;[::1]:2183
server.1=a:2888:3888
server.2=b:2888:3888:PARTICIPANT|b2:2889:3889;0.0.0.0:2181
`, " 2 \nrest\n"), Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if c.ServerID != 2 || c.Standalone || c.ClientAddr != ":2181" {
		t.Fatalf("%+v", c)
	}
	want := `server.1=a:2888:3888:participant;0.0.0.0:2181
server.2=b:2888:3888:participant|b2:2889:3889:participant;0.0.0.0:2181
server.3=[::1]:2888:3888:observer;::1:2183
version=100000000`
	want = strings.Replace(want, ";::1:2183", ";[::1]:2183", 1)
	if d := cmp.Diff(want, c.MembershipText(0x100000000)); d != "" {
		t.Fatal(d)
	}
}

func TestHierarchical(t *testing.T) {
	base := "initLimit=1\nsyncLimit=1\ndataDir=D/\nclientPort=1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
	c, err := Load(write(t, base+"group.1=1:2\ngroup.2=3\nweight.3=0\n", "1"), Flags{})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Members()
	if !c.Hierarchical || m[0].Group != 2 || m[2].Group != 3 || m[2].Weight != 0 || m[1].Weight != 1 {
		t.Fatalf("%+v", m)
	}
	if _, err := Load(write(t, base+"group.1=1:2\n", "1"), Flags{}); err == nil || !strings.Contains(err.Error(), "server 3 is a participant but in no group") {
		t.Fatal(err)
	}
}

func TestFaults(t *testing.T) {
	ok := "dataDir=D/\nclientPort=2181\n"
	three := ok + "initLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
	tests := []struct{ name, text, myid, want string }{
		{"no dataDir", "clientPort=1\n", "", "dataDir is not set"},
		{"no port", "dataDir=D/\n", "", "clientPort is not set"},
		{"address without port", "dataDir=D/\nclientPortAddress=::1\n", "", "zoo.cfg:2: clientPortAddress is set but clientPort is not set"},
		{"tick", ok + "tickTime=0\n", "", "zoo.cfg:3: tickTime=0: want a number from 1"},
		{"algorithm", ok + "electionAlg=1\n", "", "only 3 is supported"},
		{"bounds", ok + "minSessionTimeout=5000\nmaxSessionTimeout=4000\n", "", "minSessionTimeout must not be larger than maxSessionTimeout"},
		{"buffer", ok + "jute.maxbuffer=369295360\n", "", "zoo.cfg:3: jute.maxbuffer=369295360: want a number from 1024 to 369295359"},
		{"TLS asked", ok + "sslQuorum=true\n", "", "sslQuorum=true is refused"},
		{"ensemble without a name", ok + "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\n", "", "ensembleAuthName gives no name"},
		{"auth without schemes", ok + "zookeeper.enforce.auth.enabled=true\n", "", "zoo.cfg:3: enforce.auth.enabled is set, but enforce.auth.schemes names no scheme"},
		{"auth scheme", ok + "enforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl\n", "", `no client can authenticate by the scheme "sasl" here`},
		{"SASL asked", ok + "sessionRequireClientSASLAuth=true\n", "", "refused: SASL is not in this version"},
		{"oracle", ok + "oraclePath=/x\n", "", "refused"},
		{"reaping", ok + "znode.container.checkIntervalMs=0\n", "", "zoo.cfg:3: znode.container.checkIntervalMs=0: want a number from 1"},
		{"reaping rate", ok + "zookeeper.znode.container.maxPerMinute=0\n", "", "want a number from 1"},
		{"quota", ok + "enforceQuota=maybe\n", "", "enforceQuota=maybe: want true or false"},
		{"provider", ok + "authProvider.1=com.example.Foo\n", "", "this class is not known"},
		{"initLimit", ok + "server.1=a:1:2\nserver.2=b:1:2\n", "1", "initLimit is not set"},
		{"no myid", three, "", "myid file is missing"},
		{"bad myid", three, "x", `serverid "x" is not a number from 1 to 254`},
		{"large myid", three, "255", "is not a number from 1 to 254"},
		{"foreign myid", three, "9", "there is no server.9 line; there are lines for 1, 2, 3"},
		{"election port", ok + "server.1=a:1\n", "1", "missing election port for server: 1"},
		{"equal ports", ok + "server.1=a:5:5\n", "1", "must differ"},
		{"role", ok + "server.1=a:1:2:voter\n", "1", "allowed are participant and observer"},
		{"observers only", ok + "server.1=a:1:2:observer\n", "1", "Observers w/o participants"},
		{"twice", ok + "server.1=a:1:2\nserver.1=b:1:2\n", "1", "given twice"},
		{"same address", ok + "server.1=a:1:2\nserver.2=a:1:3\n", "1", "same quorum address"},
		{"ports disagree", three + "server.4=d:1:2;2182\n", "4", "they must agree"},
		{"missing dynamic file", ok + "dynamicConfigFile=D/none\n", "", "zoo.cfg:3: dynamicConfigFile"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(write(t, tt.text, tt.myid), Flags{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := Load(write(t, "tickTime=x\nmaxCnxns=-7\n", ""), Flags{})
	if n := len(strings.Split(err.Error(), "\n")); n != 4 {
		t.Fatalf("%d faults: %v", n, err)
	}
}

func TestNotices(t *testing.T) {
	c, err := Load(write(t, "dataDir=D/\nclientPort=1\nsnapCount=5\nzookeeper.readonlymode.enabled=true\nsecureClientPort=2182\nssl.keyStore.location=x\nmaxClientCnxn=5\nforceSync=no\nsslQuorum=false\n", ""), Flags{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Notices {
		w := ""
		if n.Warning {
			w = "!"
		}
		got = append(got, w+n.Key)
	}
	want := []string{"snapCount", "zookeeper.readonlymode.enabled", "secureClientPort", "ssl.keyStore.location", "!maxClientCnxn", "!forceSync"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if text := c.Notices[4].Text; !strings.Contains(text, "maxClientCnxns") {
		t.Fatal(text)
	}
}

// What the tree and the reaper are told.
func TestTree(t *testing.T) {
	base := "dataDir=D/\nclientPort=1\n"
	c, err := Load(write(t, base, ""), Flags{})
	if err != nil || c.EnforceQuota || c.X509 || c.SASL || c.ReapInterval != time.Minute || c.ReapPerMinute != 10000 || c.ReapNeverUsed != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	c, err = Load(write(t, base+`enforceQuota=true
zookeeper.znode.container.checkIntervalMs=1000
znode.container.maxPerMinute=7
znode.container.maxNeverUsedIntervalMs=1500
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
zookeeper.authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
X509AuthenticationProvider.superUser=CN=root
letAnySaslUserDoX=all
globalOutstandingLimit=5
enforce.auth.schemes=digest, ip
enforce.auth.enabled=true
ensembleAuthName=main,alias
authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider
`, ""), Flags{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if !c.EnforceQuota || !c.X509 || !c.SASL || c.X509SuperUser != "CN=root" || c.AnySASLUser != "all" || c.OutstandingLimit != 5 {
		t.Fatalf("%+v", c)
	}
	if d := cmp.Diff([]string{"main", "alias"}, c.Ensemble); d != "" || len(c.Notices) != 2 {
		t.Fatal(d, c.Notices)
	}
	if d := cmp.Diff([]string{"digest", "ip"}, c.EnforceAuth); d != "" {
		t.Fatal(d)
	}
	if c.ReapInterval != time.Second || c.ReapPerMinute != 7 || c.ReapNeverUsed != 1500*time.Millisecond {
		t.Fatalf("%+v", c)
	}
}

func TestStrictRefusesUnknownKeys(t *testing.T) {
	if _, err := Load(write(t, "dataDir=D/\nclientPort=1\nfoo=1\n", ""), Flags{Strict: true}); err == nil {
		t.Fatal("accepted")
	}
}

func TestMyIDFlag(t *testing.T) {
	text := "dataDir=D/\nclientPort=1\ninitLimit=1\nsyncLimit=1\nserver.1=a:1:2\nserver.2=b:1:2\n"
	if c, err := Load(write(t, text, ""), Flags{MyID: "2"}); err != nil || c.ServerID != 2 {
		t.Fatal(c, err)
	}
	if _, err := Load(write(t, text, "1"), Flags{MyID: "2"}); err == nil || !strings.Contains(err.Error(), "must agree") {
		t.Fatal(err)
	}
}

// The lease must end before a leader may expire a session, whatever the ticks (I10, interleavings 16).
func TestTimingKeepsTheLeaseInsideTheSession(t *testing.T) {
	for _, tick := range []int{1, 5, 50, 100, 200, 500, 1000, 2000, 3000, 60000} {
		for i, limit := range []int{1, 2, 5, 30, 1, 2, 5, 30} {
			silence := ""
			if i > 3 {
				silence = "silenceLimit=" + strconv.Itoa(100*tick) + "\n"
			}
			text := silence + "dataDir=D/\nclientPort=1\ninitLimit=1\ntickTime=" + strconv.Itoa(tick) + "\nsyncLimit=" + strconv.Itoa(limit) + "\nserver.1=a:1:2\nserver.2=b:1:2\n"
			c, err := Load(write(t, text, "1"), Flags{})
			if err != nil {
				t.Fatal(err)
			}
			g := c.Timing()
			if g.Silence > max(g.Sync, 100*time.Millisecond) || silence == "" && g.Silence > time.Second ||
				i > 3 && limit == 30 && tick > 5 && g.Silence != g.Sync {
				t.Fatalf("tick %d limit %d: silence %s", tick, limit, g.Silence)
			}
			if g.Lease+g.Heartbeat > c.MinSessionTimeout/3 || g.Lease >= g.Silence || g.Lease < minLease || 3*g.Heartbeat > g.Lease || g.Silence < 5*g.Heartbeat {
				t.Fatalf("tick %d limit %d: %+v, shortest session %s", tick, limit, g, c.MinSessionTimeout)
			}
		}
	}
}

// A line without end, as of a file that is no configuration, is warned of at once: a megabyte took six seconds.
func TestUnknownKeyWithoutEnd(t *testing.T) {
	long := strings.Repeat("tickTime", 1<<17)
	began := time.Now()
	if n := nearest(long); n != "" {
		t.Errorf("nearest to %d bytes: %s", len(long), n)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if n := nearest("tickTimes"); n != "tickTime" {
		t.Errorf("nearest to tickTimes: %q", n)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("dataDir=/x\nserver.1=a:1:2;3\ngroup.1=1\nweight.1=0\n")
	f.Add("server.1=[::1:2:3\n\\u12\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := &parser{c: &Config{TickTime: time.Second}, file: "zoo.cfg"}
		var props []property
		for _, kv := range parseProperties(text) {
			if kv.key != "dynamicConfigFile" { // no other files in a fuzz run
				props = append(props, kv)
			}
		}
		p.parse(props)
		p.finish()
	})
}
